/** The ARC test suite of the RFC's authors: its part about validation, since we do not seal. */
import { describe, expect, test } from "bun:test";
import { corpusJson, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { authenticate } from "./authenticating.ts";

interface Scenario {
  description: string;
  tests: Record<string, { message: string; cv: "Pass" | "Fail" | "None" | "" }>;
  "txt-records": Record<string, string>;
}

const scenarios = (
  corpusPresent ? corpusJson("arc-test-suite/test/fixtures/arc/arc-draft-validation-tests.json") : []
) as Scenario[];

/** Cases with another result here, and the reason. */
const DISAGREEMENTS: Record<string, { verdict: string; because: string }> = {
  cv_fail_i1_as_cv_fail: { verdict: "fail", because: "the suite names no result; RFC 8617 §5.2 step 2: cv=fail fails" },
  cv_fail_i2_as2_fail: { verdict: "fail", because: "the same" },
  cv_fail_i2_as1_fail: { verdict: "fail", because: "the same, step 3.C" },
  ams_fields_c_na: {
    verdict: "fail",
    because: "the drafts took relaxed/relaxed where c= is missing; RFC 8617 §4.1.2 takes what DKIM does, simple/simple",
  },
  ams_fields_h_empty: { verdict: "fail", because: "RFC 6376 §3.5 and §5.4: h= is never empty, and From is signed" },
  as_fields_d_empty: { verdict: "none", because: "nobody's seal is no trusted forwarder's: it is not looked at" },
  as_fields_d_invalid: { verdict: "none", because: "the same" },
};

describe.skipIf(!corpusPresent)(`RFC 8617${corpusNote}`, () => {
  test("the suite is whole", () => {
    expect(scenarios.flatMap(({ tests }) => Object.keys(tests)).length).toBe(171);
  });

  for (const { description, tests, "txt-records": records } of scenarios) {
    const dns = zone(
      Object.fromEntries(Object.entries(records).map(([name, text]) => [name.toLowerCase(), { txt: [text] }])),
    );
    test.each(Object.entries(tests))(`${description}: %s`, async (name, { message, cv }) => {
      const trustedForwarders = ["example.org", "example2.org"];
      const { results } = await authenticate(message.replaceAll(/\r?\n/g, "\r\n"), dns, {
        trustedForwarders,
        now: Date.parse("2017-01-03"),
      });
      const verdict = /; arc=(\w+)/.exec(results)?.[1] ?? "none";
      expect(verdict).toBe(DISAGREEMENTS[name]?.verdict ?? cv.toLowerCase());
    });
  }

  test("every disagreement on record still exists", () => {
    const all = Object.assign({}, ...scenarios.map(({ tests }) => tests)) as Scenario["tests"];
    for (const [name, { verdict }] of Object.entries(DISAGREEMENTS)) {
      expect(all[name]?.cv.toLowerCase(), name).not.toBe(verdict);
    }
  });
});
