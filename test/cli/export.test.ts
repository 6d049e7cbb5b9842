/** `mailroom export`, as it is typed (rules: Commands, Import and export). */
import { expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { letter } from "../harness/mail/mail.ts";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";

const OF = ["--mailbox", "ada@acme.test"] as const;

test("prints what it wrote, and overwrites no file; another appliance imports it", async () => {
  const [from, to] = [1, 2].map(() => openTerminal({ interrupted: new Promise(() => {}) }));
  for (const terminal of [from, to]) await terminal?.ask(...SETUP);
  const folder = files({ "m.mbox": mboxEntry(letter({ subject: "One" })) + mboxEntry(letter({ subject: "Two" })) });
  await from?.ask("import", ...OF, join(folder, "m.mbox"));
  const path = join(folder, "out.mbox");
  expect(await from?.ask("export", ...OF, "--to", path)).toEqual({
    mailbox: "ada@acme.test",
    to: path,
    messages: 2,
    bytes: statSync(path).size,
  });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(await from?.say("export", ...OF, "--to", path)).toMatchObject({
    exitCode: 1,
    stderr: `mailroom: ${path} exists: name another file\n`,
  });
  expect(await to?.ask("import", ...OF, path)).toMatchObject({ imported: 2, skipped: 0, failed: 0 });
}, 120_000);

test("wrong usage", async () => {
  const { say } = openTerminal();
  for (const argv of [
    ["export", ...OF],
    ["export", "--to", "x.mbox"],
    ["export", ...OF, "--to", "x.mbox", "y"],
  ]) {
    expect((await say(...argv)).exitCode).toBe(2);
  }
});
