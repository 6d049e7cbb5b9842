/** Mail that takes a parser seconds, from one peer: everybody else's mail and sends go on meanwhile. In real time. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const ADDRESS = "ada@acme.test";

/** Matching each of its selectors with each of its elements takes seconds; so large that it is received into a file. */
const COSTLY_HTML =
  `<style>${".a,".repeat(10_000)}.b{display:none}</style>${"<p class=a>x</p>".repeat(3_000)}` +
  `<!--${" ".repeat(200_000)}-->`;

const costly = (name: string): string =>
  letter({
    ...{ from: "x@evil.example", subject: `Costly ${name}`, messageId: `<costly-${name}@evil.example>`, to: ADDRESS },
    headers: ["MIME-Version: 1.0", "Content-Type: text/html"],
    text: COSTLY_HTML.replace(/.{900}/g, "$&\n"),
  }).replaceAll("\n", "\r\n");

/** Tries again, as servers do, what is refused for now. */
async function hand(client: SmtpClient, from: string, message: string): Promise<number> {
  for (;;) {
    const { code } = await client.deliver({ from, to: ADDRESS }, message);
    if (code !== 452) return code;
  }
}

/** Ms that it takes. */
async function timed(done: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await done;
  return performance.now() - startedAt;
}

test("six costly messages of one peer delay neither a send nor another peer's mail, and are filed", async () => {
  const place = { data: temporaryFolder() };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    "setup",
    "--domain",
    "acme.test",
    "--email",
    ADDRESS,
    "--name",
    "Ada",
  );
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  const server = await serve(place);
  const api = apiClient(server.http, apiKey);
  const peer = (from: string) => connectSmtp(server.mx, { from });
  const first = await peer("127.0.0.3");
  const alone = await timed(hand(first, "x@evil.example", costly("first")));

  const evil = await Promise.all(Array.from({ length: 6 }, () => peer("127.0.0.2")));
  const hostile = evil.map((client, n) => hand(client, "x@evil.example", costly(`${n}`)));
  await until(() => readdirSync(join(place.data, "spool")).length === evil.length);
  const other = await peer("127.0.0.4");
  const mail = letter({ subject: "Fine", messageId: "<fine@remote.example>", to: ADDRESS, text: "Hi." });
  const took = await Promise.all([
    timed(api.post("/send", { from: ADDRESS, to: ADDRESS, subject: "Sent", text: "Hi." })),
    timed(hand(other, "zoe@remote.example", mail.replaceAll("\n", "\r\n"))),
  ]);
  // In turn they would come after six of the kind.
  expect(Math.max(...took)).toBeLessThan(2 * alone + 5_000);

  expect(await Promise.all(hostile)).toEqual(Array.from(hostile, () => 250));
  for (const client of [first, ...evil, other]) client.destroy();
  // Also those that took longer than a message may, with nothing but their original attached.
  const { body } = await api.get<{ threads: { messageCount: number }[] }>("/search?q=from:evil.example&limit=100");
  expect(body.threads.reduce((sum, { messageCount }) => sum + messageCount, 0)).toBe(7);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 300_000);
