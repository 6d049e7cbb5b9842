/** The memory of a session, and changes while it answers. */
import { expect, test } from "bun:test";
import { runImapSelect } from "../../src/imap/commands/select.ts";
import { Parser } from "../../src/imap/grammar.ts";
import { ImapSession, type Shared, type Wire } from "../../src/imap/session.ts";
import { createImapFolders } from "../../src/mailbox/imap/imap-folders.ts";
import type { ParsingCore } from "../../src/workers/parsing-core.ts";
import { sendCore } from "../harness/servers/core.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";

const PEER = { trace: "t", source: "s", address: undefined };

test("it knows the last 50,000 messages that were put under a label, each in its folder", () => {
  const session = new ImapSession({} as ParsingCore, {} as Shared, {} as Wire, PEER);
  const [one, other] = [{ objectId: "one" }, { objectId: "other" }];
  for (let uid = 1; uid <= 50_000; uid++) session.noteCopied(one, uid);
  expect([session.wasCopied(one, 1), session.wasCopied(other, 1)]).toEqual([true, false]);
  session.noteCopied(other, 1);
  expect([1, 2, 50_000].map((uid) => session.wasCopied(one, uid))).toEqual([false, true, true]);
  expect(session.wasCopied(other, 1)).toBe(true);
});

test("what vanishes while SELECT answers is told as vanished now, since it has been counted", async () => {
  const { core, world, box, alice } = createAlice();
  for (const number of [1, 2, 3]) await world.file(box, { subject: `Message ${number}` });
  const folders = createImapFolders(core);
  const { uidValidity } = await folders.opened(box, "inbox");
  const lines: string[] = [];
  const wire = {
    async write(data: string) {
      lines.push(...data.split("\r\n"));
      if (data.includes("EXISTS")) {
        core.db.$client.run("UPDATE messages SET folder = 'archive' WHERE subject = 'Message 2'");
      }
    },
  };
  const octets = { ready: async () => true };
  const session = new ImapSession(
    sendCore(core),
    { folders, octets } as unknown as Shared,
    wire as unknown as Wire,
    PEER,
  );
  session.who = { caller: alice, present: () => alice, touch() {} } as unknown as typeof session.who;
  for (const one of ["CONDSTORE", "QRESYNC"]) session.enabled.add(one);
  await runImapSelect(session, new Parser({ text: ` INBOX (QRESYNC (${uidValidity} 1))`, literals: new Map() }), false);
  await session.tellChanges();
  expect(lines.filter((line) => /EXISTS|VANISHED/.test(line))).toEqual(["* 3 EXISTS", "* VANISHED 2"]);
});
