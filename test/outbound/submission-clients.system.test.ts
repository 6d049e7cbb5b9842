/** Mail apps of other projects, through the whole appliance to a server elsewhere. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { installed, run } from "../harness/programs.ts";
import { PASSWORD } from "../harness/servers/submission-rig.ts";
import { watch, world } from "../harness/servers/submission-world.ts";

/** Started once: every test looks only at its own mail. */
/** Made by the first test that is not skipped. */
let made: ReturnType<typeof world> | undefined;
const shared = () => {
  made ??= world();
  return made;
};

const LETTER =
  "From: Alice <alice@example.test>\r\nTo: Bob <bob@remote.example>\r\nSubject: Plans\r\n" +
  "Message-ID: <plans@app.example>\r\nDate: Mon, 05 Jan 2026 08:00:00 +0000\r\n\r\nLunch?";

let letters = 0;
/** Makes a copy of LETTER with a Message-ID of its own. */
const letter = (): string => LETTER.replace("<plans@", `<plans-${++letters}@`);

const swaks = installed("swaks");
describe.skipIf(swaks.absent)(swaks.named, () => {
  const common = ["--from", "alice@example.test", "--to", "bob@remote.example", "--body", "from swaks"];
  const auth = ["--auth-user", "alice@example.test", "--auth-password", PASSWORD];
  const server = ({ host, port }: { host: string; port: number }) => ["--server", host, "--port", String(port)];

  test.each<[listener: "submission" | "submissions", options: string[]]>([
    ["submission", ["--tls", "--auth", "PLAIN"]],
    ["submission", ["--tls", "--auth", "LOGIN"]],
    ["submission", ["--tls", "--auth", "PLAIN", "--pipeline"]],
    ["submissions", ["--tls-on-connect", "--auth", "LOGIN"]],
  ])("%s %j", async (listener, options) => {
    const it = await shared();
    const { sent } = await watch(it);
    const { exitCode, output } = await run([swaks.path, ...server(it[listener]), ...common, ...auth, ...options]);
    expect({ exitCode, output }).toMatchObject({ exitCode: 0, output: expect.stringContaining("250 2.0.0 msg_") });
    expect((await sent()).map(({ text }) => text.trim())).toEqual(["from swaks"]);
  });

  test("is refused without TLS, and without signing in", async () => {
    const it = await shared();
    const { sent } = await watch(it);
    const plain = await run([swaks.path, ...server(it.submission), ...common, ...auth, "--auth", "PLAIN"]);
    expect({ ...plain }).toMatchObject({ exitCode: 28, output: expect.not.stringContaining("235 ") });
    const anonymous = await run([swaks.path, ...server(it.submission), ...common, "--tls"]);
    expect({ ...anonymous }).toMatchObject({
      exitCode: 23,
      output: expect.stringContaining("530 5.7.0 Sign in first"),
    });
    expect(await sent()).toEqual([]);
  });
});

const msmtp = installed("msmtp");
describe.skipIf(msmtp.absent)(msmtp.named, () => {
  test.each<[listener: "submission" | "submissions", starttls: string]>([
    ["submission", "on"],
    ["submissions", "off"],
  ])("%s", async (listener, starttls) => {
    const it = await shared();
    const { sent, relayed } = await watch(it);
    const { host, port } = it[listener];
    const { exitCode, output } = await run(
      [
        msmtp.path,
        "--file=/dev/null",
        `--host=${host}`,
        `--port=${port}`,
        "--tls=on",
        `--tls-starttls=${starttls}`,
        "--tls-certcheck=off",
        "--auth=plain",
        "--user=alice@example.test",
        `--passwordeval=echo ${PASSWORD}`,
        "--read-envelope-from",
        "--read-recipients",
      ],
      "From: alice@example.test\nTo: bob@remote.example\nBcc: hidden@remote.example\nSubject: from msmtp\n\nhello\n",
    );
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: "" });
    expect(await sent()).toMatchObject([{ subject: "from msmtp", bcc: [{ email: "hidden@remote.example" }] }]);
    expect((await relayed()).flatMap(({ to }) => to)).toHaveLength(2);
  });
});

const curl = installed("curl");
describe.skipIf(curl.absent)(curl.named, () => {
  test.each<[scheme: string, listener: "submission" | "submissions", options: string[]]>([
    ["smtp", "submission", ["--ssl-reqd"]],
    ["smtps", "submissions", []],
  ])("%s, a file with bare LF", async (scheme, listener, options) => {
    const it = await shared();
    const { relayed } = await watch(it);
    const file = join(temporaryFolder(), "message.eml");
    const plans = letter();
    writeFileSync(file, plans.replaceAll("\r\n", "\n"));
    const { host, port } = it[listener];
    const { exitCode, output } = await run([
      ...[curl.path, "--silent", "--show-error", "--insecure", `${scheme}://${host}:${port}`, ...options],
      "--user",
      `alice@example.test:${it.owner.apiKey}`,
      "--upload-file",
      file,
      "--mail-from",
      "alice@example.test",
      "--mail-rcpt",
      "bob@remote.example",
    ]);
    expect({ exitCode, output }).toEqual({ exitCode: 0, output: "" });
    expect((await relayed())[0]?.content).toEndWith(`${plans}\r\n`);
  });
});
