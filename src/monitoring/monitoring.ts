/** What can be seen of the running server from outside: the parts of this folder, made once and joined. */
import { version } from "../../package.json" with { type: "json" };
import { createMeters, createMetrics, type Meters, type Metrics } from "../base/metrics.ts";
import { type GaugesParts, registerGauges } from "./gauges.ts";

export interface Monitoring {
  metrics: Metrics;
  /** For the modules that count as things happen. */
  meters: Meters;
  stop(): void;
}

export function createMonitoring(parts: Omit<GaugesParts, "metrics" | "version">): Monitoring {
  const metrics = createMetrics();
  const gauges = registerGauges({ ...parts, metrics, version });
  return { metrics, meters: createMeters(metrics, parts.runtime.now), stop: gauges.stop };
}
