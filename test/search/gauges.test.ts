/** Metrics of the embedded index and of Meilisearch. */
import { expect, test } from "bun:test";
import { createMetrics } from "../../src/base/metrics.ts";
import { registerSearchGauges } from "../../src/search/gauges.ts";
import type { ProcessState } from "../../src/search/meilisearch/process.ts";
import type { SearchState } from "../../src/search/search.ts";
import { readExposition, sampleOf } from "../harness/exposition.ts";

const NAMES = [
  "backlog_messages",
  "up",
  "behind_messages",
  "refused_messages",
  "fallbacks_total",
  "process_up",
  "process_restarts_total",
];
type Figures = (number | undefined)[];

const OFF: Figures = [undefined, undefined, undefined, undefined];
const cases: [name: string, search: SearchState, process: ProcessState, figures: Figures][] = [
  [
    "not asked for",
    { engine: "fts5", feed: { phase: "off", behind: 0, refused: 0 }, backlog: 12, fallbacks: 0 },
    { state: "off", restarts: 0 },
    [12, ...OFF, undefined, undefined],
  ],
  [
    "down",
    { engine: "fts5", reason: "it is down", feed: { phase: "down", behind: 7, refused: 1 }, backlog: 0, fallbacks: 3 },
    { state: "failed", restarts: 2 },
    [0, 0, 7, 1, 3, 0, 2],
  ],
  [
    "answering",
    { engine: "meilisearch", feed: { phase: "current", behind: 0, refused: 0 }, backlog: 0, fallbacks: 1 },
    { state: "running", restarts: 1 },
    [0, 1, 0, 0, 1, 1, 1],
  ],
  [
    "another's server",
    { engine: "meilisearch", feed: { phase: "current", behind: 0, refused: 0 }, backlog: 0, fallbacks: 0 },
    { state: "off", restarts: 0 },
    [0, 1, 0, 0, 0, undefined, undefined],
  ],
];
test.each(cases)("%s", async (_, search, process, figures) => {
  const metrics = createMetrics();
  registerSearchGauges(metrics, { search: () => search, process: () => process });
  const families = readExposition(await metrics.expose());
  expect(NAMES.map((name) => sampleOf(families, `mailroom_search_${name}`))).toEqual(figures);
});
