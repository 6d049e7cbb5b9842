import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  authorsIn,
  envelopeAddress,
  isAddressLiteral,
  isPlaceholderAddress,
  NO_SENDER,
  normalizeAddress,
  parseAddressList,
  parseSender,
  readDisplayedDomain,
  splitAddress,
  withoutAddressTag,
  withoutFalseName,
} from "../../src/message/address.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

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
    [
      "Ann <a@b.example> Bob C <c@d.example> <e@f.example>, g@h.example",
      [
        { email: "a@b.example", name: "Ann" },
        { email: "c@d.example", name: "Bob C" },
        { email: "e@f.example" },
        { email: "g@h.example" },
      ],
    ],
    [
      '"Ann, A" <a@b.example> (x) "Bob" <c@d.example>',
      [
        { email: "a@b.example", name: "Ann, A" },
        { email: "c@d.example", name: "Bob" },
      ],
    ],
    ["Ann <a@b.example> <a@b.example>", [{ email: "a@b.example", name: "Ann" }]],
    ["Ann (Sales) <a@b.example>", [{ email: "a@b.example", name: "Ann (Sales)" }]],
    ["Ann(\\(Sales\\)) B <a@b.example> (x)", [{ email: "a@b.example", name: "Ann ((Sales)) B" }]],
    ["Li (=?gb2312?q?=C0=EE?=) <a@b.example>", [{ email: "a@b.example", name: "Li (李)" }]],
    ["a@b.example (Ann) <a@b.example>", [{ email: "a@b.example" }]],
    ["Ann (ann@c.example) <a@b.example>", [{ email: "a@b.example", name: "Ann" }]],
    ["Ann (=?utf-8?q?ann=40c.example?=) <a@b.example>", [{ email: "a@b.example", name: "Ann" }]],
    ['a@b.example ("Ann B")', [{ email: "a@b.example", name: "Ann B" }]],
    ["Ann <a@b.example> Jr", [{ email: "a@b.example", name: "Ann Jr" }]],
    ["Ann <x> <a@b.example>", [{ email: "a@b.example", name: "Ann" }]],
    ["Ann <ann@b.example", [{ email: "ann@b.example", name: "Ann" }]],
    ["<mailto:ann@b.example?subject=x>", [{ email: "ann@b.example" }]],
    ["user@[IPv6:2001:db8::1]", [{ email: "user@[IPv6:2001:db8::1]" }]],
    ["jörg@bücher.example", [{ email: "jörg@bücher.example" }]],
    ["ann@b.example <ann@b.example>", [{ email: "ann@b.example" }]],
    ["Ann <ann@b\u00adü.example.>", [{ email: "ann@bü.example", name: "Ann" }]],
    ["<a\u200bnn@b.example>", [{ email: "a\ufffdnn@b.example" }]],
    ["<\u00a0ann@b.example\u00a0>", [{ email: "ann@b.example" }]],
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

  test("reads a bounded number of addresses", () => {
    expect(parseAddressList("a@b.example,".repeat(10_000)).length).toBe(2_000);
    const found = parseAddressList("A <a@b.example> B <c@d.example> ".repeat(10_000)).length;
    expect(found).toBeLessThanOrEqual(2_001);
  });
});

test("parseSender gives senders without a domain one that cannot exist", () => {
  expect(parseSender("Ann <ann@b.example>, bob@b.example")).toEqual({ email: "ann@b.example", name: "Ann" });
  expect(parseSender("=?utf-8?q?D=C3=B6?=, J <a@b.example>, c@d.example")).toEqual({
    email: "a@b.example",
    name: "Dö, J",
  });
  expect(parseSender('"Doe", J <a@b.example>')).toEqual({ email: "a@b.example", name: "J" });
  expect(parseSender("Doe, a@b.example")).toEqual({ email: "a@b.example" });
  expect(parseSender("MAILER-DAEMON")).toEqual({ email: "mailer-daemon@unknown.invalid" });
  expect(parseSender("Mail Delivery <MAILER-DAEMON>")).toEqual({
    email: "mailer-daemon@unknown.invalid",
    name: "Mail Delivery",
  });
  expect(parseSender("=?utf-8?q?J=C3=B6rg_M?=")).toEqual({ email: "unknown@unknown.invalid", name: "Jörg M" });
  expect(parseSender(" ")).toBeUndefined();
});

describe("readDomain", () => {
  test.each<[written: string, domain: string, disguised: boolean]>([
    ["Example.COM", "Example.COM", false],
    ["example.com.", "example.com", false],
    ["[192.0.2.1]", "[192.0.2.1]", false],
    ["example..com", "example..com", false],
    ["xn--bcher-kva.example", "xn--bcher-kva.example", false],
    ["mail.xn--bcher-kva.\u4e2d\u56fd", "mail.b\u00fccher.\u4e2d\u56fd", false],
    ["XN--ZZ.example", "XN--ZZ.example", true],
    ["Bücher.Example", "bücher.example", false],
    ["bu\u0308cher.example", "bücher.example", false],
    ["straße.example", "straße.example", false],
    ["ΒΌΛΟΣ.example", "βόλοσ.example", false],
    ["نامه\u200cای.example", "نامه\u200cای.example", false],
    ["ban\u212a.example", "bank.example", false],
    ["\u0e19\u0e49\u0e33.example", "\u0e19\u0e49\u0e4d\u0e32.example", false],
    ["\u0e99\u0ec9\u0eb3.example", "\u0e99\u0ec9\u0ecd\u0eb2.example", false],
    ["\u0587.example", "\u0565\u0582.example", false],
    ["\u13e3\u13b3\u13a9.example", "\u13e3\u13b3\u13a9.example", false],
    ["\uabb3\uab83\uab79.example", "\u13e3\u13b3\u13a9.example", false],
    ["ba\u00adnk.example", "bank.example", true],
    ["ba\u200dnk.example", "bank.example", true],
    ["ba\u{e0001}nk.example", "bank.example", true],
    ["ｂank.example", "bank.example", true],
    ["bank\u3002example", "bank.example", true],
    ["bank.example\u3002", "bank.example", true],
    ["ba\u2024nk.example", "ba\ufffdnk.example", true],
    ["１２７.０.０.１", "\ufffd\ufffd\ufffd.\ufffd.\ufffd.\ufffd", true],
    ["\u200b", "\ufffd", true],
    ["\u3002", "", true],
  ])("%j", (written, domain, disguised) => {
    expect(readDisplayedDomain(written)).toEqual({ domain, disguised });
  });

  test("reads its own result unchanged, and never hides a character", () => {
    const characters = fc.constantFrom(
      ..."a.-xn1üÜß\u0308\u00ad\u200b\u200d\u2060\ufe0f\u3002\uff0eａ\u{1d42c}\u202e\u2024\ufeff\u00a0",
    );
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: characters }), fc.string({ unit: anyCharacter })), (text) => {
        const { domain } = readDisplayedDomain(text);
        expect(readDisplayedDomain(domain).domain).toBe(domain);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
        if (!/^[\u0000-\u007f]*$/.test(text)) expect(domain).not.toMatch(/[\p{Default_Ignorable_Code_Point}\p{Z}]/u);
      }),
    );
  });
});

test("authorsIn lists every address in the fields, and says whether one is disguised", () => {
  expect(authorsIn(["Ann <ann@b.example>, Team: bob@b.example;", "carol@ｃ.example"])).toEqual({
    emails: ["ann@b.example", "bob@b.example", "carol@c.example"],
    disguised: true,
  });
  expect(authorsIn(["Ann <ann@Bücher.example>", "MAILER-DAEMON"])).toEqual({
    emails: ["ann@bücher.example"],
    disguised: false,
  });
  expect(authorsIn(["a@b.example,".repeat(3_000)]).emails.length).toBeLessThanOrEqual(2_000);
});

describe("a From that looks like another address", () => {
  const authorOf = (from: string) => ({ ...parseSender(from), disguised: authorsIn([from]).disguised });

  test.each<[from: string]>([
    ["<ceo@bank.example,@attacker.example>"],
    ['"x" <ceo@bank.example "<evil@attacker.example>'],
    ["<ceo@bank.example;@attacker.example>"],
    ["<ceo@bank.example\t@attacker.example>"],
    ["<ceo@bank.example\u0000@attacker.example>"],
    ["<ceo@bank.example\u202e@attacker.example>"],
    ["ceo@bank.example(a comment)@attacker.example"],
    ["<ceo@bank.example\\@attacker.example>"],
    ["ceo@[bank.example]@attacker.example"],
    ['"ceo@bank.example"@attacker.example'],
    ['<"ceo@bank.example <"@attacker.example>'],
    ["<ceo\uff20bank.example@attacker.example>"],
    ["<ceo\ufe6bbank.example@attacker.example>"],
    ["<route:ceo@bank.example>"],
    ["ceo@bank.example> <evil@attacker.example>, <ceo@bank.example[>"],
  ])("%j is disguised", (from) => {
    expect(authorOf(from).disguised).toBe(true);
  });

  test.each<[from: string, email: string]>([
    ["<ann@b.example>", "ann@b.example"],
    ["<ann.@b.example>", "ann.@b.example"],
    ["<a..nn@b.example>", "a..nn@b.example"],
    [`<${"a".repeat(80)}@b.example>`, `${"a".repeat(80)}@b.example`],
    ["<bounce+ann=b.example@c.example>", "bounce+ann=b.example@c.example"],
    ["<ann%b.example@c.example>", "ann%b.example@c.example"],
    ['<"ann b"@c.example>', '"ann b"@c.example'],
    ["<ann@[192.0.2.1]>", "ann@[192.0.2.1]"],
    ["<ann@192.0.2.1>", "ann@192.0.2.1"],
    ["<ann@b_c.example>", "ann@b_c.example"],
    ["<jörg@bücher.example>", "jörg@bücher.example"],
    ["<'ann@b.example'>", "ann@b.example"],
    ['<"ann@b.example">', "ann@b.example"],
    ["<@relay.example:ann@b.example>", "ann@b.example"],
    ["ann@b.example <ann@b.example>", "ann@b.example"],
  ])("%j is not", (from, email) => {
    expect(authorOf(from)).toEqual({ email, disguised: false });
  });

  test.each<[from: string, name: string | undefined]>([
    ['"ceo@bank.example" <evil@attacker.example>', undefined],
    ["ceo@bank.example <evil@attacker.example>", undefined],
    ["evil@attacker.example (ceo@bank.example)", undefined],
    ["=?utf-8?q?The_chief_=3Cceo=40bank.example=3E?= <evil@attacker.example>", undefined],
    ['"ceo\uff20bank.example" <evil@attacker.example>', undefined],
    ['"ceo @ bank.example" <evil@attacker.example>', undefined],
    ['"ceo@b\u0430nk.example" <evil@attacker.example>', undefined],
    ['"ceo@bank\u3002example" <evil@attacker.example>', undefined],
    ['"\u200bceo@\u2060bank.example" <evil@attacker.example>', undefined],
    ['"\u202eelpmaxe.knab\u202c" <evil@attacker.example>', "elpmaxe.knab"],
    ['"ceo\u0000" <evil@attacker.example>', "ceo"],
    ["\"'Evil@attacker.example'\" <evil@attacker.example>", "'Evil@attacker.example'"],
    ['"Ann @ Home" <evil@attacker.example>', "Ann @ Home"],
    [
      '"\u0646\u0627\u0645\u0647\u200c\u0627\u06cc" <evil@attacker.example>',
      "\u0646\u0627\u0645\u0647\u200c\u0627\u06cc",
    ],
  ])("%j has the name %j", (from, name) => {
    expect(parseSender(from)).toEqual({ email: "evil@attacker.example", ...(name !== undefined && { name }) });
  });

  test.each(["ceo\uff20bank.example", "=?utf-8?q?ceo=40bank.example_Chief?=", '"Chief (ceo@bank.example)"'])(
    "%j names nobody",
    (from) => {
      expect(parseSender(from)).toEqual({ email: "unknown@unknown.invalid" });
    },
  );

  test("however it is written, its address is judged, and is shown as one address", () => {
    const piece = fc.constantFrom(
      ..."\"'<>()[]{},;:\\@ .\t\u0000\u200b\u202e\uff20\ufe6b\u3002",
      "ceo@bank.example",
      "evil@attacker.example",
      "<evil@attacker.example>",
      "@attacker.example",
      "=?utf-8?q?ceo=40bank.example?=",
      "=?utf-8?q?=3Cceo=40bank.example=3E?=",
      "mailto:",
      "x",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 10 }), (pieces) => {
        const from = pieces.join("");
        const { email, name = "" } = parseSender(from) ?? NO_SENDER;
        const { emails, disguised } = authorsIn([from]);
        expect(emails.includes(email) || isPlaceholderAddress(email)).toBe(true);
        if (!disguised) expect(email).toMatch(/^(?:[^\s"<>()[\]\\,;:@\ufe6b\uff20]+|"[^@\ufe6b\uff20]*")@[\w.-]+$/);
        expect(name.replaceAll(new RegExp(`['"<>]*${RegExp.escape(email)}`, "gi"), "")).not.toMatch(
          /\w[@\uff20\ufe6b]\w+[.\u3002]\w/,
        );
        expect(name).not.toMatch(/[\u200b\u202e]/);
      }),
      { numRuns: 3_000 },
    );
  });
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
    ["ann@exam\u00adple.com", "ann@example.com"],
    ["ann@exam\u200dple.com", undefined],
    ["a\u00adnn@example.com", undefined],
    ['"a\u200bnn"@example.com', undefined],
    ["a\ufeffnn@example.com", undefined],
    ["a\ufffdnn@example.com", undefined],
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

  test("gives a fixed point that is safe in an SMTP command", () => {
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

test("splitAddress and withoutTag cut at the last @ and the first +", () => {
  expect(splitAddress('"a@b"@c.example')).toEqual({ local: '"a@b"', domain: "c.example" });
  expect(splitAddress("ann")).toEqual({ local: "ann", domain: "" });
  expect(withoutAddressTag("ann+news+x")).toBe("ann");
  expect(withoutAddressTag("+news")).toBe("+news");
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

  test("gives a spelling of the same address, which it leaves unchanged", () => {
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

  test("isAddressLiteral recognises hosts given by number", () => {
    expect(
      ["a@[192.0.2.1]", "a@[ipv6:2001:db8::1]", "a@remote.example", '"]"@remote.example'].map(isAddressLiteral),
    ).toEqual([true, true, false, false]);
  });
});

test("a name with another address in it is left out, whatever stands for its dot", () => {
  for (const dot of [".", "\u2024", "\u3002", "\ufe52", "\uff0e", "\uff61"]) {
    const address = { email: "x@evil.example", name: `ceo@bank${dot}example` };
    expect([dot, withoutFalseName(address)]).toEqual([dot, { email: "x@evil.example" }]);
  }
});
