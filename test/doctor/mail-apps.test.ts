/** Findings of the doctor about the octets of mail for mail apps. */
import { expect, test } from "bun:test";
import type { World } from "../../src/doctor/check.ts";
import { checkMailApps } from "../../src/doctor/checks/mail-checks.ts";
import { createImapFolders } from "../../src/mailbox/imap/imap-folders.ts";
import { createOctets } from "../../src/mailbox/imap/octets.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";

test("what is left to be made ready for mail apps, what cannot be, and what changed", async () => {
  const { store, receive, core, box, runtime } = createAlice();
  const find = () => checkMailApps({ store } as unknown as World);
  expect(await find()).toEqual([]);
  for (const text of ["one", "two", "three"]) await receive({ text });
  await createImapFolders(core).opened(box, "inbox");
  expect(await find()).toMatchObject([{ state: "ok", detail: "3 messages are being made ready for them" }]);
  await createOctets(core).job.runDue(runtime.now());
  expect(await find()).toMatchObject([{ state: "ok", detail: "all mail of mailboxes that they opened is ready" }]);
  const [one, two] = store.db.$client.query<{ seq: number }, []>("SELECT message_seq AS seq FROM imap_messages").all();
  const set = store.db.$client.query("UPDATE imap_messages SET octets = ? WHERE message_seq = ?");
  set.run(2, one?.seq ?? 0);
  set.run(3, two?.seq ?? 0);
  expect(await find()).toMatchObject([
    {
      state: "bad",
      detail: "1 messages cannot be read for mail apps; 1 messages are no longer what mail apps were told",
    },
  ]);
});
