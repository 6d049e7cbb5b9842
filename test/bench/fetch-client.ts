/**
 * The floor of webhooks: bare fetch in a loop. Arguments: URL, requests, how many at a time, how many before that to warm
 * up, and the URL that makes the receiver count anew after them. The body comes on stdin.
 */
const [url = "", requests = "0", concurrency = "1", warmUp = "0", reset = ""] = process.argv.slice(2);
const body = await Bun.stdin.text();
const headers = { "content-type": "application/json" };

async function send(count: number): Promise<void> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left-- > 0) await (await fetch(url, { method: "POST", headers, body })).arrayBuffer();
  };
  await Promise.all(Array.from({ length: Number(concurrency) }, lane));
}

await send(Number(warmUp));
await fetch(reset);
await send(Number(requests));
