/** The joined search of an appliance on a real Meilisearch server, over seeded mail. */
import type { Log } from "../../../src/base/log.ts";
import { createLog } from "../../../src/base/log.ts";
import type { ServerAddress } from "../../../src/search/meilisearch/meilisearch-client.ts";
import { createSearch, type Search } from "../../../src/search/search.ts";
import { type Options, openOptions } from "../../../src/store/settings.ts";
import type { Store } from "../../../src/store/store.ts";
import { type SeedMessage, seedIndex } from "../data/search-seed.ts";
import { atEndOfFile } from "../end.ts";
import { type FakeRuntime, fakeRuntime } from "../runtime.ts";
import { testCore } from "./core.ts";

export interface Rig extends ReturnType<typeof seedIndex> {
  joined: Search;
  options: Options;
  runtime: FakeRuntime;
  lines: Record<string, unknown>[];
  set(name: string, value: string): void;
  /** Another appliance on the same store, as after a kill -9 of the first. */
  again(): Search;
}

const started = new Set<Search>();
atEndOfFile(async () => {
  await Promise.all([...started].map((search) => search.stop()));
  started.clear();
});

/** Makes the search over `store`, with the configured engine. */
function startSearch(store: Store, options: Options, runtime: FakeRuntime, log: Log): Search {
  const search = createSearch({ ...testCore(), store, db: store.db, options, runtime, log });
  started.add(search);
  search.start();
  return search;
}

/**
 * `place`: the server's address, used once there is something to send. Searches wait until the server has received
 * everything, and require its replies.
 */
export function openRig(place: ServerAddress, mail: readonly SeedMessage[] = []): Rig {
  const runtime = fakeRuntime();
  const lines: Record<string, unknown>[] = [];
  const log = createLog("info", runtime.now, (line) => lines.push(JSON.parse(line)));
  let parts: Pick<Rig, "joined" | "options" | "set"> | undefined;
  const seeded = seedIndex(
    mail,
    (store) => {
      const options = openOptions(store);
      const set = (name: string, value: string) => store.transact((tx) => options.set(tx, name, value));
      set("search.meilisearchUrl", place.url);
      if (place.key) set("search.meilisearchKey", place.key);
      set("search.engine", "meilisearch");
      parts = { joined: startSearch(store, options, runtime, log), options, set };
      return parts.joined;
    },
    async () => {
      await parts?.joined.idle();
      const state = parts?.joined.state();
      if (state?.engine !== "meilisearch" || state.fallbacks > 0) throw new Error(JSON.stringify([state, lines]));
    },
  );
  if (!parts) throw new Error("no engine was made");
  const { options } = parts;
  return {
    ...seeded,
    ...parts,
    runtime,
    lines,
    again() {
      return startSearch(seeded.store, options, runtime, log);
    },
  };
}
