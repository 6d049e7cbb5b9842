/** mbsync copies a large mailbox both ways. */
import { test } from "bun:test";
import { mbsync, syncBothWays } from "./mbsync.ts";

test.skipIf(mbsync.absent)(
  `${mbsync.named} copies 100,000 messages both ways, and again after changes on both sides`,
  () => syncBothWays(100_000),
  3_600_000,
);
