/** The text format of metrics: counts, escapes and omissions. */
import { expect, test } from "bun:test";
import { createMetrics } from "../../src/base/metrics.ts";
import { readExposition, sampleOf } from "../harness/clients/exposition.ts";

test("a strict parser accepts counters, histograms and gauges", async () => {
  const metrics = createMetrics();
  const counter = metrics.counter<{ reason: string }>("seen_total", "What was\nseen \\ twice");
  const histogram = metrics.histogram<{ operation: string }>("took_seconds", "How long", [0.1, 1]);
  metrics.gauge("depth", "Depth", () => [
    [{ state: 'a "quoted"\\\nstate' }, 2],
    [{ state: "other" }, Number.POSITIVE_INFINITY],
  ]);
  metrics.counted("cpu_total", "Counted elsewhere", () => [[{}, 1.5]]);
  counter.add({ reason: "one" });
  counter.add({ reason: "one" }, 4);
  counter.add({ reason: "two" });
  for (const seconds of [0.1, 0.2, 1, 7]) histogram.observe({ operation: "get" }, seconds);
  const families = readExposition(await metrics.expose());
  expect(families.get("seen_total")).toEqual({
    type: "counter",
    help: "What was\\nseen \\\\ twice",
    samples: [
      { name: "seen_total", labels: { reason: "one" }, value: 5 },
      { name: "seen_total", labels: { reason: "two" }, value: 1 },
    ],
  });
  const took = (name: string, le?: string) =>
    sampleOf(families, `took_seconds_${name}`, { operation: "get", ...(le && { le }) });
  expect(["0.1", "1", "+Inf"].map((le) => took("bucket", le))).toEqual([1, 3, 4]);
  expect([took("sum"), took("count")]).toEqual([8.3, 4]);
  expect(families.get("depth")?.samples.map(({ labels, value }) => [labels.state, value])).toEqual([
    ['a "quoted"\\\nstate', 2],
    ["other", Number.POSITIVE_INFINITY],
  ]);
  expect(sampleOf(families, "cpu_total")).toBe(1.5);
});

test("a gauge that throws does not stop the others", async () => {
  const metrics = createMetrics();
  metrics.gauge("broken", "Broken", () => Promise.reject(new Error("no disk")));
  metrics.gauge("sound", "Sound", () => [[{}, 1]]);
  expect([...readExposition(await metrics.expose()).keys()]).toEqual(["sound"]);
});
