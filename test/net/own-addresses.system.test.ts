/**
 * URLs of strangers lead to the web server alone of what listens at the public addresses of this machine. The test runs in a
 * network of its own.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";

const OWN = "93.184.215.14";
const OWN_V6 = "2a00:1450::5";
const missing = process.getuid?.() === 0 ? undefined : "needs root";

/** Asks servers at both addresses; prints what each URL gave. */
const PROGRAM = `
import { zone } from ${JSON.stringify(join(import.meta.dir, "../harness/peers/dns-server.ts"))};
import { fakeRuntime } from ${JSON.stringify(join(import.meta.dir, "../harness/runtime.ts"))};
import { openHttpClient } from ${JSON.stringify(join(import.meta.dir, "../../src/net/http-client.ts"))};
const [OWN, OWN_V6] = ${JSON.stringify([OWN, OWN_V6])};
for (const hostname of [OWN, OWN_V6]) {
  for (const port of [80, 9200]) Bun.serve({ hostname, port, fetch: () => new Response("inside") });
}
const dns = zone({ "own.example": { a: [OWN] }, "six.example": { aaaa: [OWN_V6] }, "far.example": { a: ["93.184.215.15"] } });
let allow = [];
const client = openHttpClient({ runtime: fakeRuntime({ dns }), allow: () => allow });
const ask = (url) =>
  client
    .send({ method: "GET", url, headers: {} }, AbortSignal.timeout(60_000))
    .then((answer) => answer.text(), (error) => error.message);
const urls = ["own.example", "own.example:9200", "six.example", "six.example:9200", OWN + ":9200", "[" + OWN_V6 + "]:9200"];
const found = {};
for (const url of urls) found[url] = await ask("http://" + url + "/");
allow = [OWN + "/32"];
found.excepted = await ask("http://own.example:9200/");
found.far = await ask("http://far.example:9200/");
console.log(JSON.stringify(found));
process.exit(0);
`;

test.skipIf(missing !== undefined)(
  `only ports 80 and 443 of this machine's own addresses are asked${missing ? ` (${missing})` : ""}`,
  async () => {
    const setUp = `ip link set lo up && ip addr add ${OWN}/32 dev lo && ip addr add ${OWN_V6}/128 dev lo && exec "$@"`;
    const child = Bun.spawn(["unshare", "--net", "sh", "-c", setUp, "sh", process.execPath, "-e", PROGRAM], {
      env: { PATH: process.env.PATH ?? "" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const found = JSON.parse(await new Response(child.stdout).text());
    const refused = (subject: string) => `${subject} an address of this machine, where only ports 80 and 443 are asked`;
    expect(found).toEqual({
      "own.example": "inside",
      "own.example:9200": refused("own.example leads to"),
      "six.example": "inside",
      "six.example:9200": refused("six.example leads to"),
      [`${OWN}:9200`]: refused(`${OWN} is`),
      [`[${OWN_V6}]:9200`]: refused(`${OWN_V6} is`),
      excepted: "inside",
      far: expect.not.stringContaining("this machine"),
    });
  },
  120_000,
);
