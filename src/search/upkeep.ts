/** The job that merges the search index in short steps while the appliance is mostly idle. */
import type { Job } from "../base/scheduler.ts";
import type { Store } from "../store/store.ts";
import type { SearchEngine } from "./engine.ts";

/** Time between steps while there is something to merge, and between checks otherwise. */
const UPKEEP_STEP_MS = 50;
const UPKEEP_LOOK_MS = 10_000;
/** Commits per second above which upkeep pauses; FTS5 then merges what it must on its own. */
const UPKEEP_YIELDS_TO = 20;
const UPKEEP_YIELD_MS = 1_000;

export function createIndexUpkeep(store: Pick<Store, "onCommit">, engine: SearchEngine): Job {
  let committed = 0;
  let lookedAt = 0;
  store.onCommit((works) => {
    committed += works;
  });
  return {
    name: "index-upkeep",
    runDue(now) {
      const busy = (committed * 1_000) / Math.max(1, now - lookedAt) > UPKEEP_YIELDS_TO;
      committed = 0;
      lookedAt = now;
      if (busy) return now + UPKEEP_YIELD_MS;
      return now + (engine.maintain() ? UPKEEP_STEP_MS : UPKEEP_LOOK_MS);
    },
  };
}
