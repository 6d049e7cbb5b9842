/** The contract of all engines, with a real Meilisearch server. */
import { beforeAll, describe, setDefaultTimeout, test } from "bun:test";
import {
  hasMeilisearch,
  type MeilisearchServer,
  sharedMeilisearch,
  WITHOUT_MEILISEARCH,
} from "../../harness/peers/meilisearch.ts";
import { openRig } from "../../harness/servers/meilisearch-rig.ts";
import { testContract } from "../engine-contract.ts";

// Creating and feeding each index takes tasks that wait for the disk.
setDefaultTimeout(300_000);

describe("Meilisearch finds the same as FTS5", () => {
  if (!hasMeilisearch) {
    test.skip(`the engine's contract${WITHOUT_MEILISEARCH}`, () => {});
    return;
  }
  let server: MeilisearchServer;
  beforeAll(async () => {
    server = await sharedMeilisearch();
  });
  testContract((mail) => openRig(server, mail), { runs: 4 });
});
