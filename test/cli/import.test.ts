/** `mailroom import`, as it is typed (rules: Commands, Import and export). */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { letter } from "../harness/mail/mail.ts";
import { openSetUp } from "../harness/servers/terminal.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";

const NEVER = new Promise<void>(() => {});
const INTO = ["--mailbox", "ada@acme.test"] as const;

test("counts imported, skipped and failed messages by source, with reasons", async () => {
  const { ask, say } = await openSetUp({ interrupted: NEVER });
  const good = join(files({ "good.mbox": mboxEntry(letter({ subject: "One" })) }), "good.mbox");
  const source = { path: good, format: "mbox", imported: 1, skipped: 0, failed: 0, failures: [] };
  expect(await ask("import", ...INTO, good)).toEqual({
    mailbox: "ada@acme.test",
    imported: 1,
    skipped: 0,
    failed: 0,
    sources: [source],
  });
  const { exitCode, stdout, stderr } = await say("import", ...INTO, good, "/nowhere", "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toEndWith("mailroom: 1 could not be imported\n");
  expect(JSON.parse(stdout)).toMatchObject({
    imported: 0,
    skipped: 1,
    failed: 1,
    sources: [{ path: good }, { path: "/nowhere", failures: [{ reason: expect.stringContaining("ENOENT") }] }],
  });
  expect((await say("import", ...INTO, good)).stdout).toBe("0 imported, 1 skipped, 0 failed\n");
});

test("wrong usage", async () => {
  const { say } = await openSetUp({ interrupted: NEVER });
  for (const argv of [
    ["import", ...INTO],
    ["import", "x.mbox"],
    ["import", ...INTO, "x", "--folder", "spam"],
    ["import", ...INTO, "--imap", "imaps://ada@localhost", "x.mbox"],
    ["import", ...INTO, "--imap", "imaps://ada@localhost"],
    ["import", ...INTO, "--imap", "mail.example", "--password-stdin"],
  ]) {
    expect((await say(...argv)).exitCode).toBe(2);
  }
  const withPassword = await say("import", ...INTO, "--imap", "imaps://ada:s3cret@localhost", "--password-stdin");
  expect(withPassword).toMatchObject({ exitCode: 2, stderr: expect.not.stringContaining("s3cret") });
  expect(await say("import", "--mailbox", "eve@acme.test", "x.mbox")).toMatchObject({
    exitCode: 1,
    stderr: "mailroom: there is no mailbox eve@acme.test\n",
  });
});

test("SIGINT ends it after filing its window, and says how to continue", async () => {
  const { say } = await openSetUp({ interrupted: Promise.resolve() });
  const { exitCode, stdout, stderr } = await say("import", ...INTO, files({ "a.eml": letter() }), "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toEndWith("mailroom: interrupted; run it again to go on\n");
  expect(JSON.parse(stdout)).toMatchObject({ imported: 0, stopped: "interrupted" });
});
