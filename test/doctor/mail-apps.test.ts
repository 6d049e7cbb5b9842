/** Findings of the doctor about the octets of mail for mail apps. */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import type { World } from "../../src/doctor/check.ts";
import { checkMailApps } from "../../src/doctor/checks/mail-checks.ts";
import { createImapFolders } from "../../src/mailbox/imap/imap-folders.ts";
import { createMissingOctetsJob } from "../../src/mailbox/reading/missing-octets.ts";
import { octetsWaiting } from "../../src/store/schema.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";

test("what is left to be made ready for mail apps, and what cannot be", async () => {
  const { store, receive, core, box, runtime } = createAlice();
  const find = () => checkMailApps({ store } as unknown as World);
  expect(await find()).toEqual([]);
  for (const text of ["one", "two", "three"]) await receive({ text }, { withoutOctets: true });
  await createImapFolders(core).opened(box, "inbox");
  expect(await find()).toMatchObject([{ state: "ok", detail: "3 messages are being made ready for them" }]);
  await createMissingOctetsJob(core).runDue(runtime.now());
  expect(await find()).toMatchObject([{ state: "ok", detail: "all mail is ready for them" }]);
  const { seq } = await receive({ text: "four" }, { withoutOctets: true });
  store.db.update(octetsWaiting).set({ lost: true }).where(eq(octetsWaiting.messageSeq, seq)).run();
  expect(await find()).toMatchObject([{ state: "bad", detail: "1 messages cannot be read for mail apps" }]);
});
