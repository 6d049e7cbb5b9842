/** SELECT of a large mailbox. */
import { expect, test } from "bun:test";
import { sharedImapWorld } from "../harness/servers/imap-world.ts";

test("the first message that is not seen is told, also if it is behind many that are (RFC 3501 §6.3.1)", async () => {
  const world = await sharedImapWorld();
  await world.arriveAll(Array.from({ length: 1_060 }, (_, n) => `Message ${n}`));
  const client = await world.client();
  await client.say("SELECT INBOX");
  // Many are left, then few.
  for (const seen of [1_001, 1_057]) {
    await client.say(`STORE 1:${seen} +FLAGS.SILENT (\\Seen)`);
    const { untagged } = await client.say("SELECT INBOX");
    expect(untagged.filter((line) => line.includes("UNSEEN"))).toEqual([
      expect.stringMatching(new RegExp(`^\\* OK \\[UNSEEN ${seen + 1}\\]`)),
    ]);
  }
});
