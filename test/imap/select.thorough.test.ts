/** SELECT of a large mailbox. */
import { expect, test } from "bun:test";
import { sharedImapWorld } from "../harness/servers/imap-world.ts";

test("the first message that is not seen is told, also if it is behind many that are (RFC 3501 §6.3.1)", async () => {
  const world = await sharedImapWorld();
  await world.arriveAll(Array.from({ length: 1_003 }, (_, n) => `Message ${n}`));
  const client = await world.client();
  await client.say("SELECT INBOX");
  await client.say("STORE 1:1001 +FLAGS.SILENT (\\Seen)");
  const { untagged } = await client.say("SELECT INBOX");
  expect(untagged.filter((line) => line.includes("UNSEEN"))).toEqual([expect.stringMatching(/^\* OK \[UNSEEN 1002\]/)]);
});
