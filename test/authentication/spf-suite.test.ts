/** The whole SPF test suite of openspf.org for RFC 7208, with DNS as the suite describes it. */
import { describe, expect, test } from "bun:test";
import type { DnsResolver } from "../../src/base/runtime.ts";
import { authenticate } from "../harness/authenticating.ts";
import { corpusBytes, corpusNote, corpusPresent } from "../harness/corpus.ts";

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

function resolverOf({ zonedata }: Scenario): DnsResolver {
  const zone = new Map(Object.entries(zonedata).map(([name, entries]) => [name.toLowerCase(), entries]));

  function valuesOf(name: string, type: string): Value[] {
    const entries = zone.get(name.toLowerCase());
    const fail = (code: string) => Object.assign(new Error(code), { code });
    if (entries === undefined) throw fail("ENOTFOUND");
    const of = (wanted: string): Value[] =>
      entries.flatMap((entry) => (typeof entry === "object" && wanted in entry ? [entry[wanted] as Value] : []));
    const [alias] = of("CNAME");
    if (alias !== undefined && type !== "CNAME") return valuesOf(alias as string, type);
    // The suite's convention: an SPF record is a TXT record too, unless TXT is given.
    const given = of(type).length > 0 || type !== "TXT" ? of(type) : of("SPF");
    const values = given.filter((value) => value !== "NONE");
    if (values.length > 0) return values;
    throw fail(entries.includes("TIMEOUT") ? "ETIMEOUT" : "ENODATA");
  }

  const ask = (type: string) => async (name: string) => valuesOf(name, type);
  return {
    resolve4: ask("A"),
    resolve6: ask("AAAA"),
    resolvePtr: ask("PTR"),
    resolveCname: ask("CNAME"),
    resolveTxt: async (name: string) => valuesOf(name, "TXT").map((value) => [value].flat()),
    resolveMx: async (name: string) =>
      valuesOf(name, "MX").map((value) => ({ priority: value[0], exchange: value[1] })),
  } as unknown as DnsResolver;
}

describe.skipIf(!corpusPresent)(`RFC 7208${corpusNote}`, () => {
  test("the suite is whole", () => {
    expect(scenarios.length).toBe(16);
    expect(scenarios.flatMap(({ tests }) => Object.keys(tests)).length).toBe(200);
  });

  for (const scenario of scenarios) {
    const dns = resolverOf(scenario);
    test.each(Object.entries(scenario.tests))(
      `${scenario.description}: %s`,
      async (_, { helo, host, mailfrom, result }) => {
        const { verdicts } = await authenticate("\r\n", dns, { helo, ip: host, reversePath: mailfrom });
        expect([result].flat()).toContain(verdicts.spf);
      },
    );
  }
});
