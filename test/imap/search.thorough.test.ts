/** SEARCH in long mail. */
import { expect, test } from "bun:test";
import { sharedImapWorld } from "../harness/servers/imap-world.ts";

test("a search leaves the server to others, however long the mail is", async () => {
  const world = await sharedImapWorld();
  for (let i = 0; i < 12; i++) await world.arrive({ subject: `Long ${i}`, text: "lorem ipsum ".repeat(80_000) });
  const client = await world.client();
  await client.say("SELECT INBOX");
  let ended = false;
  let turns = 0;
  const search = client.say("SEARCH BODY nowhere").then(() => {
    ended = true;
  });
  while (!ended) {
    await new Promise((resolve) => setImmediate(resolve));
    turns++;
  }
  await search;
  expect(turns).toBeGreaterThan(12);
});
