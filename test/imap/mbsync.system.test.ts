/** mbsync copies a mailbox both ways. */
import { test } from "bun:test";
import { mbsync, syncBothWays, syncLabels } from "./mbsync.ts";

test.skipIf(mbsync.absent)(
  `${mbsync.named} copies 1,000 messages both ways, and again after changes on both sides`,
  () => syncBothWays(1_000),
  240_000,
);

test.skipIf(mbsync.absent)(`${mbsync.named} copies labels as folders, and leaves them out`, syncLabels, 60_000);
