/** Metrics of the embedded index, and of Meilisearch while it is enabled. */
import type { Metrics, Sample } from "../base/metrics.ts";
import type { ProcessState } from "./meilisearch/process.ts";
import type { SearchState } from "./search.ts";

interface Sources {
  search(): SearchState;
  /** The child process that the appliance runs. */
  process(): ProcessState;
}

export function registerSearchGauges({ gauge, counted }: Metrics, { search, process }: Sources): void {
  const ofSearch = (read: (state: SearchState) => number) => (): Sample[] => {
    const state = search();
    return state.feed.phase === "off" ? [] : [[{}, read(state)]];
  };
  const ofProcess = (read: (state: ProcessState) => number) => (): Sample[] => {
    const state = process();
    return state.state === "off" ? [] : [[{}, read(state)]];
  };

  gauge("mailroom_search_backlog_messages", "Stored messages that the embedded index has yet to take in", () => [
    [{}, search().backlog],
  ]);
  gauge(
    "mailroom_search_up",
    "Whether searches are answered by Meilisearch; else by the embedded index",
    ofSearch(({ engine }) => (engine === "meilisearch" ? 1 : 0)),
  );
  gauge(
    "mailroom_search_behind_messages",
    "Messages that Meilisearch has yet to be told of",
    ofSearch(({ feed }) => feed.behind),
  );
  gauge(
    "mailroom_search_refused_messages",
    "Messages that Meilisearch would not take",
    ofSearch(({ feed }) => feed.refused),
  );
  counted(
    "mailroom_search_fallbacks_total",
    "Searches that the embedded index answered in the place of Meilisearch",
    ofSearch(({ fallbacks }) => fallbacks),
  );
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
