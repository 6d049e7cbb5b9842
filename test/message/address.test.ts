import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  envelopeAddress,
  isAddressLiteral,
  normalizeAddress,
  parseAddressList,
  parseSender,
  splitAddress,
  withoutTag,
} from "../../src/message/address.ts";
import { anyCharacter } from "../harness/any-character.ts";

describe("parseAddressList", () => {
  const cases: [string, { email: string; name?: string }[]][] = [
    ["jdoe@example.org", [{ email: "jdoe@example.org" }]],
    ['"Joe Q. Public" <joe@example.com>', [{ email: "joe@example.com", name: "Joe Q. Public" }]],
    ["Doe, John <a@b.example>", [{ email: "a@b.example", name: "John" }]],
    ["a@b.example, c@d.example;e@f.example", ["a@b.example", "c@d.example", "e@f.example"].map((email) => ({ email }))],
    ["a@b.example (Ann)", [{ email: "a@b.example", name: "Ann" }]],
    ["undisclosed-recipients:;", []],
    [
      "Team: a@b.example, C <c@d.example>;, e@f.example",
      [{ email: "a@b.example" }, { email: "c@d.example", name: "C" }, { email: "e@f.example" }],
    ],
    ["=?utf-8?q?J=C3=B6rg?= <j@b.example>", [{ email: "j@b.example", name: "Jörg" }]],
    ['"=?utf-8?q?J=C3=B6rg?=" <j@b.example>', [{ email: "j@b.example", name: "Jörg" }]],
    ["=?utf-8?q?Ann,_Bob?= <j@b.example>", [{ email: "j@b.example", name: "Ann, Bob" }]],
    ["<@relay.example:mary@example.net>", [{ email: "mary@example.net" }]],
    ["pete(his account)@silly.test(his host)", [{ email: "pete@silly.test", name: "his host" }]],
    ["Pete <pete(x)@silly . test>", [{ email: "pete@silly.test", name: "Pete" }]],
    ["john @ example . com", [{ email: "john@example.com" }]],
    ['"john smith"@example.com', [{ email: '"john smith"@example.com' }]],
    ["a@b.example c@d.example", [{ email: "a@b.example" }, { email: "c@d.example" }]],
    ["Ann <ann@b.example", [{ email: "ann@b.example", name: "Ann" }]],
    ["<mailto:ann@b.example?subject=x>", [{ email: "ann@b.example" }]],
    ["user@[IPv6:2001:db8::1]", [{ email: "user@[IPv6:2001:db8::1]" }]],
    ["jörg@bücher.example", [{ email: "jörg@bücher.example" }]],
    ["ann@b.example <ann@b.example>", [{ email: "ann@b.example" }]],
    ["MAILER-DAEMON", []],
    ["", []],
  ];
  for (const [text, expected] of cases) {
    test(JSON.stringify(text), () => expect(parseAddressList(text)).toEqual(expected));
  }

  test("never throws, and gives no address without an @ or with a control character", () => {
    const characters = fc.constantFrom(..."a@b.c<>\"'()[],;:\\ \t=?_éあ\u0000\ud800".split(""));
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: characters })), (text) => {
        for (const { email, name } of parseAddressList(text)) {
          expect(email).toMatch(/^[^\s\p{Cc}]+@[^\s\p{Cc}]+$/u);
          expect((name ?? "").isWellFormed()).toBe(true);
          expect(name ?? "").not.toMatch(/\p{Cc}/u);
        }
      }),
    );
  });

  test("a list has bounds", () => {
    expect(parseAddressList("a@b.example,".repeat(10_000)).length).toBe(2_000);
  });
});

test("parseSender knows senders without a domain by one that cannot exist", () => {
  expect(parseSender("Ann <ann@b.example>, bob@b.example")).toEqual({ email: "ann@b.example", name: "Ann" });
  expect(parseSender("MAILER-DAEMON")).toEqual({ email: "mailer-daemon@unknown.invalid" });
  expect(parseSender("Mail Delivery <MAILER-DAEMON>")).toEqual({
    email: "mailer-daemon@unknown.invalid",
    name: "Mail Delivery",
  });
  expect(parseSender("=?utf-8?q?J=C3=B6rg_M?=")).toEqual({ email: "unknown@unknown.invalid", name: "Jörg M" });
  expect(parseSender(" ")).toBeUndefined();
});

describe("normalizeAddress", () => {
  const cases: [string, string | undefined][] = [
    ["Ann@Example.COM", "ann@example.com"],
    [" ann@example.com ", "ann@example.com"],
    ["ann+tag@example.com", "ann+tag@example.com"],
    ['"ann"@example.com', "ann@example.com"],
    ['"Ann B"@example.com', '"ann b"@example.com'],
    ["ann@Bücher.example", "ann@xn--bcher-kva.example"],
    ["ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"],
    ["jörg@example.com", "jörg@example.com"],
    ["jo\u0308rg@example.com", "jörg@example.com"],
    ["ann@[192.0.2.1]", "ann@[192.0.2.1]"],
    ["ann", undefined],
    ["@example.com", undefined],
    ["ann@", undefined],
    ["a b@example.com", undefined],
    ["ann@example..com", undefined],
    ["ann@-example.com", undefined],
    ["ann@127.0.0.1", undefined],
    ["ann@mail.127", undefined],
    ["ann@2130706433", undefined],
    ["ann@１２７.0.0.1", undefined],
    ["ann@０x7f000001", undefined],
    ["ann@127.0.0.1.example", "ann@127.0.0.1.example"],
    ["ann@mail.1a", "ann@mail.1a"],
    ["ann@exam ple.com", undefined],
    ["ann@example.com/x", undefined],
    [".ann@example.com", undefined],
    ["ann..b@example.com", undefined],
    ["Ann <ann@example.com>", undefined],
    ["ann@example.com\r\nRCPT TO:<x@y>", undefined],
    [`${"a".repeat(65)}@example.com`, undefined],
    [`a@${"a".repeat(64)}.com`, undefined],
  ];
  for (const [text, expected] of cases) {
    test(JSON.stringify(text), () => expect(normalizeAddress(text)).toBe(expected as string));
  }

  test("is a fixed point, and safe in an SMTP command", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.emailAddress()), (text) => {
        const once = normalizeAddress(text);
        if (once === undefined) return;
        expect(normalizeAddress(once)).toBe(once);
        expect(once).not.toMatch(/[\p{Cc}<>]/u);
      }),
    );
  });
});

test("splitAddress and withoutTag", () => {
  expect(splitAddress('"a@b"@c.example')).toEqual({ local: '"a@b"', domain: "c.example" });
  expect(splitAddress("ann")).toEqual({ local: "ann", domain: "" });
  expect(withoutTag("ann+news+x")).toBe("ann");
  expect(withoutTag("+news")).toBe("+news");
});

describe("envelopeAddress", () => {
  test.each<[string, string | undefined]>([
    ["Ann.B+Tag@REMOTE.example", "Ann.B+Tag@remote.example"],
    ["ann@bücher.example", "ann@xn--bcher-kva.example"],
    ['"Ann"@remote.example', "Ann@remote.example"],
    ['"Ann\\ B"@remote.example', '"Ann B"@remote.example'],
    ["Jörg@remote.example", "Jörg@remote.example"],
    ["ann@[192.0.2.1]", "ann@[192.0.2.1]"],
    ["ann", undefined],
    ["a b@remote.example", undefined],
    ["ann@re mote.example", undefined],
  ])("%j", (text, expected) => {
    expect(envelopeAddress(text)).toBe(expected as string);
  });

  test("is another spelling of the same address, and its own envelope address", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.emailAddress(),
          fc.string({ unit: anyCharacter }).map((local) => `${local}@b.example`),
        ),
        (text) => {
          const address = envelopeAddress(text);
          expect(address === undefined).toBe(normalizeAddress(text) === undefined);
          if (address === undefined) return;
          expect(normalizeAddress(address)).toBe(normalizeAddress(text) as string);
          expect(envelopeAddress(address)).toBe(address);
        },
      ),
    );
  });

  test("isAddressLiteral", () => {
    expect(
      ["a@[192.0.2.1]", "a@[ipv6:2001:db8::1]", "a@remote.example", '"]"@remote.example'].map(isAddressLiteral),
    ).toEqual([true, true, false, false]);
  });
});
