/** TLS at every listener as OpenSSL speaks it: sessions resumed, keys updated, names with a final dot. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Conversation, connectOpenssl, OPENSSL, resume, type TlsListener } from "../harness/clients/openssl.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { boot } from "../harness/servers/boot.ts";

const VERSIONS = ["-tls1_2", "-tls1_3"] as const;

/** Every listener that ends TLS, and a question that each answers. */
async function listeners() {
  const folder = temporaryFolder();
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  const replace = async (host: string): Promise<void> => {
    const { pair } = await makeChain(host);
    writeFileSync(files.cert, pair.cert);
    writeFileSync(files.key, pair.key);
  };
  await replace("mail.example.test");
  const any = "127.0.0.1:0";
  const booted = await boot({
    ...{ MAILROOM_TLS: `files:${files.cert},${files.key}`, MAILROOM_HOSTNAME: "mail.example.test" },
    ...{ MAILROOM_HTTPS: any, MAILROOM_IMAP: any, MAILROOM_IMAPS: any },
  });
  const portOf = (name: string) =>
    Number(
      String(booted.ready[name as "mx"])
        .split(":")
        .at(-1),
    );
  const secured = /^ *Verify return code/m;
  const smtp = { ready: secured, question: "NOOP", answer: /^250 2\.0\.0 OK/m };
  const imap = { ready: secured, question: "A1 NOOP", answer: /^A1 OK /m };
  const web = {
    ready: secured,
    question: "GET /healthz HTTP/1.1\nHost: mail.example.test\n",
    answer: /^HTTP\/1\.1 200/m,
  };
  const all: Record<string, TlsListener & Conversation> = {
    MX: { port: portOf("mx"), starttls: "smtp", ...smtp },
    submission: { port: portOf("submission"), starttls: "smtp", ...smtp },
    submissions: { port: portOf("submissions"), ...smtp, ready: /^220 /m },
    IMAP: { port: portOf("imap"), starttls: "imap", ...imap },
    IMAPS: { port: portOf("imaps"), ...imap, ready: /^\* OK /m },
    HTTPS: { port: portOf("https"), ...web },
  };
  return { all: Object.entries(all), replace, ...booted };
}

describe.skipIf(OPENSSL.absent)(`TLS with ${OPENSSL.named}`, () => {
  test("sessions are resumed, with TLS 1.2 and 1.3", async () => {
    const { all } = await listeners();
    for (const [name, listener] of all) {
      for (const version of VERSIONS)
        expect([name, version, await resume(listener, version, listener)]).toEqual([name, version, "Reused"]);
    }
  }, 60_000);

  test("a session from before another certificate is not resumed: the new certificate is shown", async () => {
    const { all, replace, advance } = await listeners();
    let turn = 0;
    for (const [name, listener] of all) {
      for (const version of VERSIONS) {
        const between = async () => {
          await replace(`${"x".repeat(++turn)}.example.test`);
          await advance(2_000);
        };
        expect([name, version, await resume(listener, version, { ...listener, between })]).toEqual([
          name,
          version,
          "New",
        ]);
      }
    }
  }, 60_000);

  test("keys are updated, by the client alone and on both sides", async () => {
    const { all } = await listeners();
    for (const [, { ready, question, answer, ...listener }] of all) {
      const client = connectOpenssl(listener, "-tls1_3", "-no_ign_eof");
      await client.hear(ready);
      let updates = 0;
      for (const update of ["k", "K", "K", "k"]) {
        client.say(update);
        updates++;
        await client.hear(new RegExp(`(?:KEYUPDATE[^]*){${updates}}`));
        client.say(question);
        await client.hear(new RegExp(`(?:${answer.source}[^]*){${updates}}`, "m"));
      }
      await client.end();
    }
  }, 60_000);

  test("a name with a final dot gets the same certificate", async () => {
    const { all } = await listeners();
    for (const [name, listener] of all) {
      for (const asked of ["mail.example.test", "mail.example.test."]) {
        const client = connectOpenssl(listener, "-servername", asked);
        expect([name, await client.hear(/^ *Verify return code/m)]).toEqual([
          name,
          expect.stringContaining("CN = mail.example.test\n"),
        ]);
        await client.end();
      }
    }
  }, 60_000);
});
