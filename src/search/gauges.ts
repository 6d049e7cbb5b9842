/** What /metrics tells of Meilisearch, once the settings ask for it. */
import type { Metrics, Sample } from "../metrics.ts";
import type { ProcessState } from "./meilisearch/process-state.ts";

/** `process`: of the child that the appliance runs. */
export function registerSearchGauges({ gauge, counted }: Metrics, process: () => ProcessState): void {
  /** Nothing of a process that is not asked for. */
  const ofProcess = (read: (state: ProcessState) => number) => (): Sample[] =>
    process().state === "off" ? [] : [[{}, read(process())]];

  gauge(
    "mailroom_search_process_up",
    "Whether the Meilisearch process answers",
    ofProcess(({ state }) => (state === "running" ? 1 : 0)),
  );
  counted(
    "mailroom_search_process_restarts_total",
    "How often the Meilisearch process was started again",
    ofProcess(({ restarts }) => restarts),
  );
}
