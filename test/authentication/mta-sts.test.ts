import { describe, expect, test } from "bun:test";
import {
  namesHost,
  readStsPolicy,
  readStsRecord,
  type StsPolicy,
  writeStsPolicy,
  writeStsRecord,
} from "../../src/authentication/mta-sts.ts";

describe("the record", () => {
  test.each([
    [["v=STSv1; id=20160831085700Z;"], "20160831085700Z"],
    [["v=STSv1;id=a"], "a"],
    [["v=spf1 -all", "v=STSv1; id=1; other=x"], "1"],
    [["v=STSv1; id=1", "v=STSv1; id=2"], undefined],
    [["v=STSv1; id=has-dash"], undefined],
    [[`v=STSv1; id=${"1".repeat(33)}`], undefined],
    [["v=STSv1"], undefined],
    [["v=STSv12; id=1"], undefined],
    [["id=1; v=STSv1"], undefined],
    [[], undefined],
  ])("%j is of the policy %p", (texts, id) => {
    expect(readStsRecord(texts)).toBe(id as string);
  });
});

describe("the policy", () => {
  test("is read, whatever stands beside and however its lines end", () => {
    const text =
      "version: STSv1\r\nmode:enforce\r\nmx: Mail.Example.com \r\nmx: *.example.net\r\nmax_age: 86400\r\nnew-field: x\r\n";
    const policy = { mode: "enforce", mx: ["mail.example.com", "*.example.net"], maxAgeSeconds: 86400 } as const;
    expect(readStsPolicy(text)).toEqual(policy);
    expect(readStsPolicy(`${text.replaceAll("\r", "")}mode: none\nmax_age: 1`)).toEqual(policy);
    expect(readStsPolicy("version: STSv1\nmode: none\nmax_age: 0")).toEqual({ mode: "none", mx: [], maxAgeSeconds: 0 });
  });

  test.each([
    ["", "version"],
    ["version: STSv2\nmode: none\nmax_age: 1", "version"],
    ["version: STSv1\nmax_age: 1", "mode"],
    ["version: STSv1\nmode: strict\nmx: a.b\nmax_age: 1", "mode"],
    ["version: STSv1\nmode: enforce\nmax_age: 1", "mx"],
    ["version: STSv1\nmode: testing\nmx: a.b", "max_age"],
    ["version: STSv1\nmode: testing\nmx: a.b\nmax_age: soon", "max_age"],
    ["version: STSv1\nmode: testing\nmx: a.b\nmax_age: 31557601", "max_age"],
    ["<html>version: STSv1</html>", "version"],
  ])("%j is none", (text, what) => {
    expect(() => readStsPolicy(text)).toThrow(what);
  });

  test("is written as it is read, under a record whose id changes with it", () => {
    const policy: StsPolicy = { mode: "enforce", mx: ["mail.example.com"], maxAgeSeconds: 604_800 };
    const text = writeStsPolicy(policy);
    expect(readStsPolicy(text)).toEqual(policy);
    const other = writeStsPolicy({ ...policy, mode: "none" });
    expect(readStsPolicy(other)).toEqual({ ...policy, mode: "none", mx: [] });
    const ids = [text, text, other].map((one) => readStsRecord([writeStsRecord(one)]));
    expect(ids[0]).toMatch(/^[0-9a-f]{20}$/);
    expect([ids[1] === ids[0], ids[2] === ids[0]]).toEqual([true, false]);
  });

  test.each([
    ["mail.example.com", true],
    ["a.example.net", true],
    ["a.b.example.net", false],
    ["example.net", false],
    ["xmail.example.com", false],
    ["net", false],
  ])("names %s: %p", (host, isNamed) => {
    expect(namesHost({ mode: "enforce", mx: ["mail.example.com", "*.example.net"], maxAgeSeconds: 1 }, host)).toBe(
      isNamed,
    );
  });
});
