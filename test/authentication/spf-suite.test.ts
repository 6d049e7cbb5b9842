/** The whole SPF test suite of openspf.org for RFC 7208, with DNS as the suite describes it. */
import { describe, expect, test } from "bun:test";
import { corpusBytes, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { type Failing, type Records, type Zone, zone } from "../harness/peers/dns-server.ts";
import { authenticate } from "./authenticating.ts";

interface Case {
  helo: string;
  host: string;
  mailfrom: string;
  /** Several where the RFC leaves a choice. */
  result: string | string[];
}

type Value = string | string[] | [number, string];
type Entry = "TIMEOUT" | Record<string, Value>;

interface Scenario {
  description: string;
  tests: Record<string, Case>;
  zonedata: Record<string, Entry[]>;
}

const file = corpusBytes("openspf-rfc7208/test/fixtures/spf/rfc7208-tests.yml");
const scenarios = (file === undefined ? [] : Bun.YAML.parse(Buffer.from(file).toString())) as Scenario[];

const TYPES = ["A", "AAAA", "PTR", "CNAME", "MX", "TXT"] as const;

/** The records of a name, by the conventions of the suite. */
function recordsOf(entries: Entry[]): Records {
  const of = (wanted: string): Value[] =>
    entries.flatMap((entry) => (typeof entry === "object" && wanted in entry ? [entry[wanted] as Value] : []));
  const records: Record<string, unknown> = {};
  const failing: Partial<Record<string, Failing>> = {};
  for (const type of TYPES) {
    // An SPF record is a TXT record too, unless TXT is given.
    const given = of(type).length > 0 || type !== "TXT" ? of(type) : of("SPF");
    const values = given.filter((value) => value !== "NONE");
    if (values.length > 0) records[type.toLowerCase()] = type === "CNAME" ? values[0] : values;
    else if (entries.includes("TIMEOUT")) failing[type.toLowerCase()] = "silence";
  }
  return { ...records, failing };
}

const zoneOfSuite = ({ zonedata }: Scenario): Zone =>
  Object.fromEntries(Object.entries(zonedata).map(([name, entries]) => [name.toLowerCase(), recordsOf(entries)]));

describe.skipIf(!corpusPresent)(`RFC 7208${corpusNote}`, () => {
  test("the suite is whole", () => {
    expect(scenarios.length).toBe(16);
    expect(scenarios.flatMap(({ tests }) => Object.keys(tests)).length).toBe(200);
  });

  for (const scenario of scenarios) {
    const dns = zone(zoneOfSuite(scenario));
    test.each(Object.entries(scenario.tests))(
      `${scenario.description}: %s`,
      async (_, { helo, host, mailfrom, result }) => {
        const { verdicts } = await authenticate("\r\n", dns, { helo, ip: host, reversePath: mailfrom });
        expect([result].flat()).toContain(verdicts.spf);
      },
    );
  }
});
