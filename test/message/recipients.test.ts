/** Recipients of a request: every entry is one address, as typed, or the request is refused with the entry's name. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AppError } from "../../src/base/errors.ts";
import { normalizeAddress, parseAddressList, splitAddress } from "../../src/message/address.ts";
import { formatAddress } from "../../src/message/compose.ts";
import { readRecipients, readUnfinishedRecipients } from "../../src/message/recipients.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { plain } from "../harness/runner/plain.ts";

const refusalOf = (given: string | string[]): AppError => {
  try {
    return expect.unreachable(`read as ${JSON.stringify(readRecipients(given))}`);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
};

describe("read", () => {
  const cases: [given: string | string[] | undefined, expected: unknown[]][] = [
    [undefined, []],
    ["", []],
    [" , ;\n", []],
    [[], []],
    [["", "  "], []],
    ["a@b.example", [{ email: "a@b.example" }]],
    [" a@b.example , c@d.example,", [{ email: "a@b.example" }, { email: "c@d.example" }]],
    [["a@b.example", "c@d.example, e@f.example"], ["a", "c", "e"].map((x) => ({ email: expect.stringMatching(x) }))],
    ["Ann B <a@b.example>", [{ email: "a@b.example", name: "Ann B" }]],
    ['"B, Ann" <a@b.example>; c@d.example', [{ email: "a@b.example", name: "B, Ann" }, { email: "c@d.example" }]],
    ["a@b.example (Ann)", [{ email: "a@b.example", name: "Ann" }]],
    ["A\u0000n\nn\u0085 <a@b.example>", [{ email: "a@b.example", name: "An n" }]],
    ["=?utf-8?q?J=C3=B6rg?= <a@b.example>", [{ email: "a@b.example", name: "Jörg" }]],
    ["a@b.example <A@b.example>", [{ email: "A@b.example", name: "a@b.example" }]],
    ['"c@d.example" <a@b.example>', [{ email: "a@b.example", name: "c@d.example" }]],
    // Only the recipient's server may fold the local part; every server may fold the domain.
    ["Ann.B+Tag@B.EXAMPLE", [{ email: "Ann.B+Tag@b.example" }]],
    ["a@bücher.example", [{ email: "a@xn--bcher-kva.example" }]],
    ["jörg@b.example", [{ email: "jörg@b.example" }]],
    ['"Ann"@b.example', [{ email: "Ann@b.example" }]],
    ['"Ann B"@b.example', [{ email: '"Ann B"@b.example' }]],
    ['"a\\\\\\"b c"@b.example', [{ email: '"a\\\\\\"b c"@b.example' }]],
    ['Ann <"a b"@b.example>', [{ email: '"a b"@b.example', name: "Ann" }]],
    ["Team: a@b.example, C <c@d.example>;", [{ email: "a@b.example" }, { email: "c@d.example", name: "C" }]],
    ["undisclosed-recipients:;", []],
  ];
  test.each(cases.map((row) => [plain(JSON.stringify(row[0]) ?? "nothing"), ...row] as const))(
    "%s",
    (_, given, expected) => {
      expect<unknown[]>(readRecipients(given)).toEqual(expected);
    },
  );
});

describe("refused", () => {
  test.each<[string, string]>([
    ["Ann", "Ann"],
    ["a@b.example, Ann", "Ann"],
    ["Ann <>", "Ann <>"],
    ["a@", "a@"],
    ["@b.example", "@b.example"],
    ["a@b_.exa mple", "a@b_.exa mple"],
    ["a@-b.example", "a@-b.example"],
    ["a..b@b.example", "a..b@b.example"],
    [`${"a".repeat(65)}@b.example`, "a".repeat(65)],
    ["a@[192.0.2.1]", "IP address"],
    ["a@[IPv6:2001:db8::1]", "IP address"],
    ["mailto:a", "a"],
    // A lenient reader would make one address of these, or drop them.
    ["a b@b.example", "a b@b.example"],
    ["a@b.example c@d.example", "a@b.example c@d.example"],
    ["c@d.example <a@b.example>", "c@d.example <a@b.example>"],
    ["<a@b.example> <c@d.example>", "<a@b.example> <c@d.example>"],
    ["Ann <a b@b.example>", "Ann <a b@b.example>"],
    ["<@relay.example:a@b.example>", "<@relay.example:a@b.example>"],
    ["<mailto:a@b.example>", "<mailto:a@b.example>"],
    ["a@b.example (Ann, c@d.example", "a@b.example (Ann, c@d.example"],
    ["a@b.example (Ann, c@d.example \\)", "a@b.example (Ann, c@d.example"],
    ['a@b.example "Ann, c@d.example', "c@d.example"],
    ["Ann <a@b.example", "Ann <a@b.example"],
    ["Ann <a@b.example, c@d.example", "Ann <a@b.example"],
    ["a@b.example: c@d.example", "a@b.example: c@d.example"],
    ["a@b.example\u202e", "a@b.example"],
    ["a@127.0.0.1", "a@127.0.0.1"],
    ["a@１２７.0.0.1", "a@"],
    // A refusal shows no control character of a quoted local part as an escape.
    ['"a\r\nb"@b.example', "b"],
    ['"a\u0000b"@b.example', "b"],
    ['"a\ud800b"@b.example', "b"],
  ])("%j", (given, named) => {
    const error = refusalOf(given);
    expect([error.code, error.status]).toEqual(["unprocessable", 422]);
    expect(error.message).toContain(named);
    expect(refusalOf(["fine@b.example", given]).message).toBe(error.message);
  });

  test("with a short reason on one line, for any input", () => {
    const { message } = refusalOf(`a\r\n\u0000\u202e${"\u{1f600}".repeat(10_000)}`);
    expect(message.length).toBeLessThan(140);
    expect(message).toMatch(/^[^\p{C}]*$/u);
  });
});

test("addresses written into a header read back unchanged", () => {
  fc.assert(
    fc.property(fc.emailAddress(), fc.string({ unit: anyCharacter, maxLength: 100 }), (email, text) => {
      fc.pre(normalizeAddress(email) !== undefined);
      const [named = expect.unreachable()] = readRecipients(`${JSON.stringify(text)} <${email}>`);
      expect(splitAddress(named.email).local).toBe(splitAddress(email).local);
      expect(readRecipients(formatAddress(named))).toEqual([named]);
    }),
  );
});

test("parentheses in a quoted local part belong to it", () => {
  for (const text of ['"("@c.example', '"a (b) c"@c.example']) {
    expect(parseAddressList(text)).toEqual([{ email: text }]);
    expect(readRecipients(text)).toEqual([{ email: text }]);
  }
});

test("any text is refused, or gives as many usable addresses as a lenient reader finds", () => {
  const soup = fc
    .array(fc.constantFrom("a@b.example", "c", "<", ">", ",", ";", ":", '"', "(", ")", "\\", " ", "@", "[", "]", "é"), {
      maxLength: 14,
    })
    .map((pieces) => pieces.join(""));
  fc.assert(
    fc.property(fc.oneof(soup, fc.string({ unit: anyCharacter })), (text) => {
      let read: ReturnType<typeof readRecipients>;
      try {
        read = readRecipients(text);
      } catch (error) {
        expect(error).toBeInstanceOf(AppError);
        return;
      }
      expect(read.map(({ email }) => normalizeAddress(email))).toEqual(
        parseAddressList(text).map(({ email }) => normalizeAddress(email)),
      );
      expect(read.every(({ email }) => normalizeAddress(email) !== undefined)).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

test.each<[string, unknown[], string]>([
  ["", [], ""],
  ["Ann <a@b.example>, c@", [{ email: "a@b.example", name: "Ann" }], "c@"],
  ['c, a@b.example; "B, ', [{ email: "a@b.example" }], 'c, "B,'],
  ["a@[127.0.0.1]", [], "a@[127.0.0.1]"],
])("the unfinished %j: addresses are read, and the rest is kept as typed", (given, addresses, rest) => {
  expect(readUnfinishedRecipients(given)).toEqual({ addresses, rest } as ReturnType<typeof readUnfinishedRecipients>);
});

test("unfinished recipients beyond the limit are kept as typed", () => {
  const given = Array.from({ length: 5_002 }, (_, n) => `n${n}@b.example`);
  const { addresses, rest } = readUnfinishedRecipients(given.join(", "));
  expect([addresses.length, rest]).toEqual([5_000, "n5000@b.example, n5001@b.example"]);
});
