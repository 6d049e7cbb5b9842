/** Mail that people sign themselves: the programs that made a signature verify it where the mail arrives. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import type { RemoteScript } from "../harness/peers/remote-mx.ts";
import { installed, run } from "../harness/programs.ts";
import { signedIn, world } from "../harness/servers/submission-world.ts";

/** Text that any change of line ends, spaces or dots spoils. */
const PART =
  'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße  \r\n.\r\n..\r\nFrom here\t\r\n\r\n"end"  \r\n';
const ASCII = PART.replace("8bit", "7bit").replace("Grüße", "Greetings");
const HEADER =
  "From: Alice <alice@example.test>\r\nTo: bob@remote.example\r\nSubject: signed\r\nBcc: carol@remote.example\r\n";

/** A message whose second part any server without 8BITMIME has re-encoded, beside a signed one. */
const beside = (signed: string) =>
  `${HEADER}Content-Type: multipart/mixed; boundary=outer\r\n\r\n--outer\r\n${signed}\r\n--outer\r\n` +
  "Content-Type: text/plain; charset=utf-8\r\n\r\nSchöne Grüße\r\n--outer--\r\n";
const WITHOUT_EXTENSIONS: RemoteScript = { eightBitMime: false, smtputf8: false };

/** The message that arrives elsewhere when Alice submits one. */
async function relayed(message: string, script: RemoteScript = {}): Promise<Buffer> {
  const it = await world();
  it.remote.script(script);
  const client = await signedIn(it);
  // RFC 5321 §4.5.2
  const stuffed = message.replace(/^\./gm, "..").replace(/\r\n$/, "");
  const reply = await client.deliver({ from: "alice@example.test", to: "bob@remote.example" }, stuffed);
  expect(reply.lines).toEqual([expect.stringMatching(/^2\.0\.0 /)]);
  await it.server.settled();
  client.destroy();
  const [arrived] = await it.remote.waitFor(1);
  return Buffer.from(arrived?.bytes ?? []);
}

async function succeed(command: string[], input?: string): Promise<string> {
  const { exitCode, output } = await run(command, input);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${output}`);
  return output;
}

const openssl = installed("openssl");
describe.skipIf(openssl.absent)(openssl.named, () => {
  test("S/MIME", async () => {
    const folder = temporaryFolder();
    const file = (name: string) => join(folder, name);
    await succeed([
      openssl.path,
      "req",
      "-x509",
      "-newkey",
      "rsa:2048",
      "-nodes",
      "-subj",
      "/emailAddress=alice@example.test",
      "-keyout",
      file("key.pem"),
      "-out",
      file("cert.pem"),
    ]);
    const sign = async (part: string): Promise<string> => {
      writeFileSync(file("part"), part);
      const signer = ["-signer", file("cert.pem"), "-inkey", file("key.pem")];
      await succeed([
        ...[openssl.path, "cms", "-sign", "-in", file("part"), "-binary", "-crlfeol", "-out", file("signed")],
        ...signer,
      ]);
      return (await Bun.file(file("signed")).text()).replace(/\r?\n/g, "\r\n");
    };
    const arrived = await relayed(HEADER + (await sign(PART)));
    writeFileSync(file("arrived"), arrived);
    const verify = (name: string) =>
      run([openssl.path, "cms", "-verify", "-in", file(name), "-CAfile", file("cert.pem"), "-out", file("content")]);
    expect(await verify("arrived")).toMatchObject({ exitCode: 0, output: expect.stringContaining("successful") });
    expect(await Bun.file(file("content")).text()).toBe(PART);
    const re = (await relayed(beside(await sign(ASCII)), WITHOUT_EXTENSIONS)).toString("latin1");
    expect(re).toContain("Sch=C3=B6ne Gr=C3=BC=C3=9Fe");
    writeFileSync(file("beside"), re.slice(re.indexOf("--outer\r\n") + 9, re.lastIndexOf("\r\n--outer\r\n")), "latin1");
    expect(await verify("beside")).toMatchObject({ exitCode: 0, output: expect.stringContaining("successful") });
    expect(await Bun.file(file("content")).text()).toBe(ASCII);
    writeFileSync(file("spoiled"), arrived.toString("latin1").replace("..\r\n", ".\r\n"), "latin1");
    expect((await verify("spoiled")).exitCode).not.toBe(0);
  });
});

const gpg = installed("gpg");
describe.skipIf(gpg.absent)(gpg.named, () => {
  test("PGP/MIME", async () => {
    const folder = temporaryFolder();
    const file = (name: string) => join(folder, name);
    mkdirSync(file("home"), { mode: 0o700 });
    const command = [gpg.path, "--homedir", file("home"), "--batch", "--quiet", "--passphrase", "", "--pinentry-mode"];
    const pgp = (...rest: string[]) => [...command, "loopback", ...rest];
    try {
      await succeed(pgp("--quick-generate-key", "Alice <alice@example.test>", "ed25519", "sign", "never"));
      const sign = async (content: string): Promise<string> => {
        writeFileSync(file("part"), content);
        await succeed(pgp("--armor", "--yes", "--output", file("part.asc"), "--detach-sign", file("part")));
        const signature = (await Bun.file(file("part.asc")).text()).replace(/\r?\n/g, "\r\n");
        return (
          'Content-Type: multipart/signed; micalg=pgp-sha512;\r\n\tprotocol="application/pgp-signature"; boundary=x\r\n\r\n' +
          `--x\r\n${content}\r\n--x\r\nContent-Type: application/pgp-signature\r\n\r\n${signature}\r\n--x--\r\n`
        );
      };
      const expectGood = async (arrived: Buffer): Promise<void> => {
        const [, part = "", rest = ""] = arrived.toString("utf8").split("\r\n--x\r\n");
        writeFileSync(file("arrived"), part);
        writeFileSync(file("arrived.asc"), rest.slice(rest.indexOf("-----BEGIN"), rest.indexOf("\r\n--x--")));
        const verified = await run(pgp("--verify", file("arrived.asc"), file("arrived")));
        expect(verified).toMatchObject({ exitCode: 0, output: expect.stringContaining("Good signature") });
      };
      await expectGood(await relayed(HEADER + (await sign(PART))));
      const arrived = await relayed(beside(await sign(ASCII)), WITHOUT_EXTENSIONS);
      expect(arrived.toString()).toContain("Sch=C3=B6ne Gr=C3=BC=C3=9Fe");
      await expectGood(arrived);
    } finally {
      await run(["gpgconf", "--homedir", file("home"), "--kill", "all"]);
    }
  });
});
