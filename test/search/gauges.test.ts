/** What /metrics says of Meilisearch. */
import { expect, test } from "bun:test";
import { createMetrics } from "../../src/metrics.ts";
import { registerSearchGauges } from "../../src/search/gauges.ts";
import type { ProcessState } from "../../src/search/meilisearch/process-state.ts";
import { readExposition, sampleOf } from "../monitoring/exposition.ts";

const cases: [state: ProcessState, up: number | undefined, restarts: number | undefined][] = [
  [{ state: "off", restarts: 0 }, undefined, undefined],
  [{ state: "starting", restarts: 1 }, 0, 1],
  [{ state: "running", restarts: 2 }, 1, 2],
  [{ state: "failed", restarts: 3 }, 0, 3],
];
test.each(cases)("the process %p", async (state, up, restarts) => {
  const metrics = createMetrics();
  registerSearchGauges(metrics, () => state);
  const families = readExposition(await metrics.expose());
  expect(sampleOf(families, "mailroom_search_process_up")).toBe(up);
  expect(sampleOf(families, "mailroom_search_process_restarts_total")).toBe(restarts);
});
