/** Mail that people sign themselves: the programs that made a signature verify it where the mail arrives. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { installed, run } from "../harness/programs.ts";
import { signedIn, world } from "../harness/submission-world.ts";

/** Text that any change of line ends, spaces or dots spoils. */
const PART =
  'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße  \r\n.\r\n..\r\nFrom here\t\r\n\r\n"end"  \r\n';
const HEADER =
  "From: Alice <alice@example.test>\r\nTo: bob@remote.example\r\nSubject: signed\r\nBcc: carol@remote.example\r\n";

/** The message that arrives elsewhere when Alice submits one. */
async function relayed(message: string): Promise<Buffer> {
  const it = await world();
  const client = await signedIn(it);
  // RFC 5321 §4.5.2
  const stuffed = message.replace(/^\./gm, "..").replace(/\r\n$/, "");
  const reply = await client.deliver({ from: "alice@example.test", to: "bob@remote.example" }, stuffed);
  expect(reply.lines).toEqual([expect.stringMatching(/^2\.0\.0 /)]);
  await it.appliance.settled();
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
    writeFileSync(file("part"), PART);
    await succeed([
      openssl.path,
      "cms",
      "-sign",
      "-in",
      file("part"),
      "-binary",
      "-crlfeol",
      "-out",
      file("signed"),
      "-signer",
      file("cert.pem"),
      "-inkey",
      file("key.pem"),
    ]);
    const message = HEADER + (await Bun.file(file("signed")).text()).replace(/\r?\n/g, "\r\n");
    const arrived = await relayed(message);
    writeFileSync(file("arrived"), arrived);
    const verify = (name: string) =>
      run([openssl.path, "cms", "-verify", "-in", file(name), "-CAfile", file("cert.pem"), "-out", file("content")]);
    expect(await verify("arrived")).toMatchObject({ exitCode: 0, output: expect.stringContaining("successful") });
    expect(await Bun.file(file("content")).text()).toBe(PART);
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
      writeFileSync(file("part"), PART);
      await succeed(pgp("--armor", "--output", file("part.asc"), "--detach-sign", file("part")));
      const signature = (await Bun.file(file("part.asc")).text()).replace(/\r?\n/g, "\r\n");
      const arrived = await relayed(
        `${HEADER}Content-Type: multipart/signed; micalg=pgp-sha512;\r\n\tprotocol="application/pgp-signature"; boundary=x\r\n\r\n` +
          `--x\r\n${PART}\r\n--x\r\nContent-Type: application/pgp-signature\r\n\r\n${signature}\r\n--x--\r\n`,
      );
      const text = arrived.toString("utf8");
      const [, part = "", rest = ""] = text.split("\r\n--x\r\n");
      writeFileSync(file("arrived"), part);
      writeFileSync(file("arrived.asc"), rest.slice(rest.indexOf("-----BEGIN"), rest.indexOf("\r\n--x--")));
      const verified = await run(pgp("--verify", file("arrived.asc"), file("arrived")));
      expect(verified).toMatchObject({ exitCode: 0, output: expect.stringContaining("Good signature") });
    } finally {
      await run(["gpgconf", "--homedir", file("home"), "--kill", "all"]);
    }
  });
});
