/** The floor of webhooks: bare fetch in a loop. Arguments: URL, requests, how many at a time. The body comes on stdin. */
const [url = "", requests = 0, concurrency = 1] = process.argv
  .slice(2)
  .map((text, i) => (i === 0 ? text : Number(text)));
const body = await Bun.stdin.text();
let left = Number(requests);
await Promise.all(
  Array.from({ length: Number(concurrency) }, async () => {
    while (left-- > 0) {
      const headers = { "content-type": "application/json" };
      await (await fetch(String(url), { method: "POST", headers, body })).arrayBuffer();
    }
  }),
);
