/**
 * Reads Prometheus' text format, and refuses as `promtool check metrics` does: samples without a type, out of place or twice,
 * bad names, escapes and values, and histograms that do not add up.
 */

export interface Family {
  type: string;
  help: string;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  for (let at = 0; at < text.length; at = LABEL.lastIndex) {
    const match = LABEL.exec(text);
    if (!match?.[1]) throw new Error(`bad labels: ${text}`);
    if (match[1] in labels) throw new Error(`label twice: ${text}`);
    labels[match[1]] = (match[2] ?? "").replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
  }
  return labels;
}

const numberOf = (text: string): number => {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  if (text === "-Inf") return Number.NEGATIVE_INFINITY;
  if (!/^(NaN|[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)$/.test(text)) throw new Error(`bad value: ${text}`);
  return Number(text);
};

export function readExposition(text: string): Map<string, Family> {
  if (!text.endsWith("\n")) throw new Error("the last line is not ended");
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let current: { name: string; family: Family } | undefined;
  let help: { name: string; text: string } | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      help = { name, text: rest };
    } else if (kind === "TYPE") {
      if (!NAME.test(name) || families.has(name) || help?.name !== name) throw new Error(`bad family: ${line}`);
      if (rest === "counter" && !name.endsWith("_total")) throw new Error(`a counter without _total: ${name}`);
      current = { name, family: { type: rest, help: help.text, samples: [] } };
      families.set(name, current.family);
    } else {
      const [, sample = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
      const suffixes = current?.family.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      if (!current || !suffixes.some((suffix) => sample === current?.name + suffix))
        throw new Error(`misplaced: ${line}`);
      if (seen.has(`${sample}{${labels}}`)) throw new Error(`twice: ${line}`);
      seen.add(`${sample}{${labels}}`);
      current.family.samples.push({ name: sample, labels: labelsOf(labels), value: numberOf(value) });
    }
  }
  for (const [name, family] of families) if (family.type === "histogram") checkHistogram(name, family);
  return families;
}

function checkHistogram(name: string, { samples }: Family): void {
  const series = Map.groupBy(samples, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  for (const [labels, own] of series) {
    const buckets = own.filter((sample) => sample.name === `${name}_bucket`);
    const bounds = buckets.map((bucket) => numberOf(bucket.labels.le ?? "NaN"));
    const counts = buckets.map(({ value }) => value);
    const rises = (list: number[]) => list.every((value, i) => i === 0 || value >= (list[i - 1] ?? 0));
    const total = own.find((sample) => sample.name === `${name}_count`)?.value;
    if (!rises(bounds) || !rises(counts) || bounds.at(-1) !== Number.POSITIVE_INFINITY || counts.at(-1) !== total) {
      throw new Error(`${name}${labels} does not add up`);
    }
  }
}

/** Finds the value of a sample; undefined when there is none. */
export function sampleOf(families: Map<string, Family>, name: string, labels: Record<string, string> = {}) {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ""));
  const wanted = Object.entries(labels);
  return family?.samples.find(
    (sample) => sample.name === name && wanted.every(([label, text]) => sample.labels[label] === text),
  )?.value;
}
