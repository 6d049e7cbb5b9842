/** COPY and delete by all routes between folders, in all orders. */
import { beforeAll, test } from "bun:test";
import { appPassword, type ImapWorld, sharedImapWorld } from "../harness/servers/imap-world.ts";
import { carryInAnyOrder } from "./carrying.ts";

let world: ImapWorld;
/** Alice's, for what a key may not. */
let person: { email: string; key: string };
beforeAll(async () => {
  world = await sharedImapWorld();
  person = { email: world.alice, key: appPassword(world.app) };
});

for (const [from, to] of [
  ["INBOX", "Archive"],
  ["INBOX", "Trash"],
  ["Archive", "INBOX"],
  ["Trash", "INBOX"],
  ["Junk", "INBOX"],
  ["INBOX", "Junk"],
] as const) {
  for (const byUid of [true, false]) {
    test(
      `${from} to ${to} by COPY and delete${byUid ? " by UID" : ""}, whatever the order and wherever it ends`,
      () => carryInAnyOrder(world, person, from, to, byUid),
      60_000,
    );
  }
}
