/** SPF, DKIM and DMARC of single messages, signed by code that shares nothing with the checks. */
import { beforeAll, describe, expect, test } from "bun:test";
import { findOrganizationalDomains } from "../../src/authentication/dmarc.ts";
import type { Check } from "../../src/authentication/evidence.ts";
import { newSigner, type Signer, signed } from "../harness/mail/dkim-signer.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { authenticate } from "./authenticating.ts";

let rsa: Signer;
let ed25519: Signer;
let short: Signer;
let stranger: Signer;
let records: Zone;

beforeAll(() => {
  rsa = newSigner("remote.example", { bits: 1024, selector: "rsa" });
  ed25519 = newSigner("remote.example", { selector: "ed" });
  short = newSigner("remote.example", { bits: 768, selector: "short" });
  stranger = newSigner("stranger.example");
  records = {
    "remote.example": { txt: ["v=spf1 ip4:192.0.2.1 -all"] },
    "_dmarc.remote.example": { txt: ["v=DMARC1; p=reject; sp=quarantine"] },
    "stranger.example": { txt: ["v=spf1 ip4:198.51.100.1 ~all"] },
    "mail.remote.example": { txt: ["v=spf1 ip4:192.0.2.1 -all"] },
    "bücher.example": {},
    "xn--bcher-kva.example": {},
    "_dmarc.xn--bcher-kva.example": { txt: ["v=DMARC1; p=reject"] },
    "_dmarc.strict.example": { txt: ["v=DMARC1; p=reject; aspf=s; adkim=s"] },
    "news.strict.example": { txt: ["v=spf1 ip4:192.0.2.1 -all"] },
    "_dmarc.np.example": { txt: ["v=DMARC1; p=none; sp=quarantine; np=reject"] },
    "there.np.example": { a: ["192.0.2.7"] },
    "_dmarc.some.example": { txt: ["v=DMARC1; p=reject; pct=20"] },
    "_dmarc.testing.example": { txt: ["v=DMARC1; p=reject; t=y"] },
    "_dmarc.twice.example": { txt: ["v=DMARC1; p=reject", "v=DMARC1; p=reject"] },
    "_dmarc.silent.example": "silence",
  };
  for (const { domain, selector, record } of [rsa, ed25519, short, stranger]) {
    records[`${selector}._domainkey.${domain}`] = { txt: [record] };
  }
});

const check = (message: string, given: Parameters<typeof authenticate>[2] = {}, more: Zone = {}) =>
  authenticate(message.replaceAll(/\r?\n/g, "\r\n"), zone({ ...records, ...more }), given);
const LETTER = letter({ messageId: "<1@remote.example>" });
const from = (value: string): string => LETTER.replace(/^From: .*/, `From: ${value}`);
/** An arrival from another address than remote.example publishes, with no SPF of its own. */
const ELSEWHERE = { ip: "203.0.113.9", reversePath: "list@unknown.example" };

describe("SPF", () => {
  test.each([
    ["the MAIL FROM of its domain", {}, "pass"],
    ["another address", { ip: "203.0.113.9" }, "fail"],
    ["IPv4 mapped into IPv6", { ip: "::ffff:192.0.2.1" }, "pass"],
    ["softfail", { reversePath: "a@stranger.example" }, "softfail"],
    ["HELO when there is no MAIL FROM", { reversePath: "" }, "pass"],
    ["HELO that is an address", { reversePath: "", helo: "[192.0.2.1]" }, "none"],
    ["no HELO", { reversePath: "", helo: "" }, "none"],
    ["no record", { reversePath: "a@unknown.example" }, "none"],
    ["an IDN", { reversePath: "a@bücher.example" }, "none"],
  ])("%s", async (_, smtpContext, verdict) => {
    expect((await check(LETTER, smtpContext)).verdicts.spf).toBe(verdict);
  });

  const nested = (count: number): Zone =>
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [
        i === 0 ? "deep.example" : `i${i}.example`,
        { txt: [i === count - 1 ? "v=spf1 +all" : `v=spf1 include:i${i + 1}.example -all`] },
      ]),
    );
  test.each([
    ["ten includes deep", nested(11), "pass"],
    ["eleven includes deep", nested(12), "permerror"],
    ["an include of itself", { "deep.example": { txt: ["v=spf1 include:deep.example -all"] } }, "permerror"],
    ["a record of 60 kB", { "deep.example": { txt: [`v=spf1 ${"ip4:192.0.2.1 ".repeat(4_000)}-all`] } }, "temperror"],
    ["records that lie about being one", { "deep.example": { txt: ["v=spf1 +all", "v=spf1 -all"] } }, "permerror"],
    ["a server failure", { "deep.example": "SERVFAIL" as const }, "temperror"],
    ["silence", { "deep.example": "silence" as const }, "temperror"],
    [
      "an include that is silent",
      { "deep.example": { txt: ["v=spf1 include:x.example -all"] }, "x.example": "silence" as const },
      "temperror",
    ],
    [
      "ptr, and reverse DNS that fails",
      { "deep.example": { txt: ["v=spf1 ptr -all"] }, "1.2.0.192.in-addr.arpa": "SERVFAIL" as const },
      "temperror",
    ],
    [
      "ptr, and a name whose address is not told",
      {
        "deep.example": { txt: ["v=spf1 ptr -all"] },
        "1.2.0.192.in-addr.arpa": { ptr: ["mail.deep.example"] },
        "mail.deep.example": "SERVFAIL" as const,
      },
      "temperror",
    ],
    ["ptr, and no reverse DNS", { "deep.example": { txt: ["v=spf1 ptr -all"] } }, "fail"],
  ])("%s", async (_, more: Zone, verdict) => {
    const { verdicts } = await check(LETTER, { reversePath: "a@deep.example" }, more);
    expect(verdicts).toEqual({ spf: verdict, dkim: "none", dmarc: "fail" });
  });
});

describe("DKIM", () => {
  test("RSA and Ed25519 signatures pass, and make DMARC pass from any host", async () => {
    for (const signer of [rsa, ed25519]) {
      const { verdicts, policy } = await check(signed(LETTER, signer), ELSEWHERE);
      expect(verdicts).toEqual({ spf: "none", dkim: "pass", dmarc: "pass" });
      expect(policy).toBe("none");
    }
  });

  test("mail of RFC 8463's author passes with the keys of its appendix", async () => {
    // RFC 8463 Appendix A.
    const message = [
      "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;",
      " d=football.example.com; i=@football.example.com;",
      " q=dns/txt; s=brisbane; t=1528637909; h=from : to :",
      " subject : date : message-id : from : subject : date;",
      " bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;",
      " b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus",
      " Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==",
      "From: Joe SixPack <joe@football.example.com>",
      "To: Suzie Q <suzie@shopping.example.net>",
      "Subject: Is dinner ready?",
      "Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)",
      "Message-ID: <20030712040037.46341.5F8J@football.example.com>",
      "",
      "Hi.",
      "",
      "We lost the game.  Are you hungry yet?",
      "",
      "Joe.",
      "",
    ].join("\n");
    const key = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    const more = { "brisbane._domainkey.football.example.com": { txt: [key] } };
    expect((await check(message, ELSEWHERE, more)).verdicts.dkim).toBe("pass");
    expect((await check(message.replace("hungry", "angry"), ELSEWHERE, more)).verdicts.dkim).toBe("fail");
  });

  const tamper = (text: string): string => text.replace("How are you?", "Pay here.");
  test.each<[string, () => string, string]>([
    ["another body", () => tamper(signed(LETTER, rsa)), "fail"],
    ["another subject", () => signed(LETTER, rsa).replace("Subject: Hello", "Subject: Hullo"), "fail"],
    ["a key of 768 bits", () => signed(LETTER, short), "permerror"],
    ["no key", () => signed(LETTER, { ...rsa, selector: "gone" }), "neutral"],
    ["a signature that does not cover From", () => signed(LETTER, rsa, { h: "to:subject" }), "neutral"],
    ["an expired one", () => signed(LETTER, rsa, { t: "1500000000", x: "1600000000" }), "neutral"],
    ["no tags", () => `DKIM-Signature: nonsense\r\n${LETTER}`, "neutral"],
    ["a tag twice", () => signed(LETTER, rsa, { h: "from; h=from" }), "neutral"],
    ["rsa-sha1", () => signed(LETTER, rsa, { a: "rsa-sha1" }), "fail"],
    ["l= over the whole body", () => signed(LETTER, rsa, { l: "14" }), "pass"],
    ["l= and more after it", () => `${signed(LETTER, rsa, { l: "14" })}Pay here.\r\n`, "neutral"],
    ["l=0", () => signed(LETTER, rsa, { l: "0" }), "neutral"],
    [
      "a broken one before a good one",
      () => `${tamper(signed(LETTER, ed25519)).split("\r\nFrom:")[0]}\r\n${signed(LETTER, rsa)}`,
      "pass",
    ],
  ])("%s", async (_, make, verdict) => {
    const { verdicts } = await check(make(), ELSEWHERE);
    expect(verdicts.dkim).toBe(verdict);
    if (verdict !== "pass") expect(verdicts.dmarc).not.toBe("pass");
  });

  test("an empty or malformed key, one of 60 kB and another kind of record never pass", async () => {
    const message = signed(LETTER, rsa);
    for (const [record, verdict] of [
      ["v=DKIM1; k=rsa; p=", "neutral"],
      ["v=DKIM1; k=rsa; p=AAAA", "neutral"],
      [`v=DKIM1; k=rsa; p=${"A".repeat(60_000)}`, "temperror"],
      ["v=spf1 -all", "neutral"],
    ] as const) {
      const { verdicts } = await check(message, ELSEWHERE, { "rsa._domainkey.remote.example": { txt: [record] } });
      expect(verdicts.dkim, record.slice(0, 40)).toBe(verdict);
    }
  });

  test("only the ten topmost of a thousand signatures are checked", async () => {
    const dns = zone(records);
    const fields = Array.from({ length: 1_000 }, (_, i) => {
      const text = signed(LETTER, { ...ed25519, selector: `s${i}` });
      return text.slice(0, text.indexOf("\r\n") + 2);
    });
    const { verdicts, results } = await authenticate(fields.join("") + signed(LETTER, rsa), dns, ELSEWHERE);
    expect(dns.questions.filter((question) => question.includes("_domainkey"))).toEqual(
      Array.from({ length: 10 }, (_, i) => `txt s${i}._domainkey.remote.example`),
    );
    expect(verdicts.dkim).not.toBe("pass");
    expect(results.match(/dkim=/g)?.length).toBe(10);
  });

  test.each([
    ["white space that has no end", `a=rsa-sha256; d=evil.example; s=x; b=${" ".repeat(100_000)}x`],
    ["white space over its bound", `a=rsa-sha256; d=evil.example; s=x; b=${" ".repeat(257)}x`],
    ["more bytes than its bound", `a=rsa-sha256; d=evil.example; s=x; b=${"x".repeat(17_000)}`],
  ])("a signature with %s is permerror, at once, and the honest one beside it holds", async (_, value) => {
    const begun = process.cpuUsage();
    const { verdicts, results } = await check(`DKIM-Signature: ${value}\n${signed(LETTER, rsa)}`, ELSEWHERE);
    const { user, system } = process.cpuUsage(begun);
    expect([verdicts.dkim, verdicts.dmarc]).toEqual(["pass", "pass"]);
    expect(results).toContain("dkim=permerror (signature is too long to check)");
    expect(user + system).toBeLessThan(1_000_000);
    const alone = await check(`DKIM-Signature: ${value}\n${LETTER}`, ELSEWHERE);
    expect(alone.verdicts).toMatchObject({ dkim: "permerror", dmarc: "fail" });
    expect(alone.policy).toBe("reject");
  });

  test("another field with such white space, or over its bound, is checked by nobody, and does not escape DMARC", async () => {
    for (const value of [`a${" ".repeat(100_000)}b`, "x".repeat(140_000)]) {
      const begun = process.cpuUsage();
      const { verdicts, policy } = await check(`Subject: ${value}\n${signed(LETTER, rsa)}`, ELSEWHERE);
      const { user, system } = process.cpuUsage(begun);
      expect([verdicts.dkim, verdicts.dmarc, policy]).toEqual(["permerror", "fail", "reject"]);
      expect(user + system).toBeLessThan(1_000_000);
    }
  });

  test("only two signatures with l= are checked, in any spelling", async () => {
    const fields = ["l", " l ", "\r\n\tl", "l"].map((name, i) => {
      const text = signed(LETTER, { ...ed25519, selector: "ed" }, { [name]: String(i) });
      return text.slice(0, text.indexOf("\r\nFrom:") + 2);
    });
    const { results } = await check(fields.join("") + signed(LETTER, rsa), ELSEWHERE);
    expect(results.match(/header\.a=[\w-]+/g)).toEqual([
      "header.a=ed25519-sha256",
      "header.a=ed25519-sha256",
      "header.a=rsa-sha256",
    ]);
  });

  test("a header of 5,000 lines is not checked, and does not escape DMARC", async () => {
    const message = signed(LETTER, rsa).replace("\r\nTo:", `\r\n${"X-Line: x\r\n".repeat(5_000)}To:`);
    const { verdicts, policy } = await check(message, { ...ELSEWHERE, shown: "carol@remote.example" });
    expect(verdicts).toEqual({ spf: "none", dkim: "permerror", dmarc: "fail" });
    expect(policy).toBe("reject");
  });
});

describe("DMARC", () => {
  test.each<[string, string, object, string, string]>([
    ["SPF aligned", "carol@remote.example", {}, "pass", "none"],
    [
      "SPF of a subdomain, relaxed",
      "carol@remote.example",
      { reversePath: "", helo: "mail.remote.example" },
      "pass",
      "none",
    ],
    ["SPF of a subdomain, strict", "carol@strict.example", { reversePath: "a@news.strict.example" }, "fail", "reject"],
    [
      "SPF of another domain",
      "carol@remote.example",
      { ip: "198.51.100.1", reversePath: "a@stranger.example" },
      "fail",
      "reject",
    ],
    ["nothing", "carol@remote.example", ELSEWHERE, "fail", "reject"],
    ["a subdomain, sp", "carol@sub.remote.example", ELSEWHERE, "fail", "quarantine"],
    ["a subdomain that exists, sp", "a@there.np.example", ELSEWHERE, "fail", "quarantine"],
    ["a subdomain that does not exist, np", "a@gone.np.example", ELSEWHERE, "fail", "reject"],
    ["the domain itself, p=none", "a@np.example", ELSEWHERE, "fail", "none"],
    ["t=y, one weaker", "a@testing.example", ELSEWHERE, "fail", "quarantine"],
    ["two records are none", "a@twice.example", ELSEWHERE, "none", "none"],
    ["no record", "a@unknown.example", ELSEWHERE, "none", "none"],
    ["no answer", "a@silent.example", ELSEWHERE, "temperror", "none"],
    ["an IDN", "a@bücher.example", ELSEWHERE, "fail", "reject"],
    ["no domain", "Carol", ELSEWHERE, "none", "none"],
    ["an empty group", "undisclosed:;", ELSEWHERE, "none", "none"],
    ["a group of one", "Team: carol@remote.example;", ELSEWHERE, "fail", "reject"],
    ["several of one domain", "carol@remote.example, dan@remote.example", {}, "pass", "none"],
    ["several, one of which fails", "carol@remote.example, a@testing.example", {}, "fail", "quarantine"],
    ["several, the strictest of those that fail", "a@testing.example, a@strict.example", ELSEWHERE, "fail", "reject"],
    ["several of which none fails", "carol@remote.example, a@unknown.example", {}, "permerror", "none"],
    ["several that publish nothing", "a@unknown.example, b@nowhere.example", {}, "none", "none"],
    [
      "more than anybody writes",
      "a@a.example, a@b.example, a@c.example, a@d.example, a@remote.example",
      ELSEWHERE,
      "permerror",
      "quarantine",
    ],
  ])("%s", async (_, author, smtpContext, verdict, policy) => {
    const message = Buffer.from(from(author)).toString("latin1");
    const found = await check(message, smtpContext);
    expect([found.verdicts.dmarc, found.policy]).toEqual([verdict, policy] as never);
  });

  test("pct is read", async () => {
    expect(await check(from("a@some.example"), ELSEWHERE)).toMatchObject({ policy: "reject", percent: 20 });
    expect(await check(from("carol@remote.example"), ELSEWHERE)).toMatchObject({ policy: "reject", percent: 100 });
  });

  test("two From fields never pass, even with valid signatures", async () => {
    for (const second of ["carol@remote.example", "Eve <eve@remote.example>"]) {
      const message = signed(LETTER, rsa).replace("\r\nFrom:", `\r\nFrom: ${second}\r\nFrom:`);
      const { verdicts, policy } = await check(message);
      expect(verdicts).toEqual({ spf: "pass", dkim: "pass", dmarc: "fail" });
      expect(policy).toBe("reject");
    }
  });

  test("the address that readers see counts too", async () => {
    const found = await check(from("a@unknown.example"), { ...ELSEWHERE, shown: "carol@remote.example" });
    expect(found).toMatchObject({ verdicts: { dmarc: "fail" }, policy: "reject" });
  });

  test("an identifier that could align and cannot be checked makes it temperror; one that could not align does not", async () => {
    const key = { "rsa._domainkey.remote.example": "silence" } as const;
    expect(await check(signed(LETTER, rsa), ELSEWHERE, key)).toMatchObject({
      verdicts: { dkim: "temperror", dmarc: "temperror" },
      policy: "none",
    });
    expect(await check(LETTER, {}, { "remote.example": "SERVFAIL" })).toMatchObject({
      verdicts: { spf: "temperror", dmarc: "temperror" },
      policy: "none",
    });
    const others = { "s._domainkey.stranger.example": "silence", "unknown.example": "silence" } as const;
    expect(await check(signed(LETTER, stranger), ELSEWHERE, others)).toMatchObject({
      verdicts: { spf: "temperror", dkim: "temperror", dmarc: "fail" },
      policy: "reject",
    });
  });
});

test("a signed message of more lines than honest mail has is not checked", async () => {
  const lines = "\r\n".repeat(2_100_000);
  expect((await check(signed(LETTER, rsa) + lines)).results).toContain("dkim=permerror (message has too many lines");
  expect((await check(LETTER + lines)).results).toContain("dkim=none");
});

test("Authentication-Results has every result, on one line, whatever the sender wrote", async () => {
  const { results } = await check(signed(LETTER, rsa));
  expect(results).toMatch(
    /^mx\.example\.test; spf=pass .*; dkim=pass .*header\.d=remote\.example.*; dmarc=pass .*header\.from=remote\.example$/,
  );
  const { results: hostile } = await check(LETTER, { reversePath: 'x"; dmarc=pass (\r\nX: y@remote.example' });
  expect(hostile).toMatch(
    /^mx\.example\.test; spf=pass smtp\.mailfrom=remote\.example; dkim=none [^;]*; dmarc=pass [^;]*$/,
  );
});

describe("organizationsOf", () => {
  const passed = (domain: string) => ({ verdict: "pass", domain, info: "" }) as const;
  const failed = (domain: string) => ({ verdict: "fail", domain, info: "" }) as const;
  const none = { verdict: "none", info: "" } as const;
  const records: Record<string, string | undefined> = {
    "_dmarc.provider.example": "v=DMARC1; p=none",
    "_dmarc.suffix.example": "v=DMARC1; p=reject; psd=y",
  };
  const ask = async (name: string): Promise<string[][]> => {
    const code = name.endsWith("down.example") ? "ESERVFAIL" : "ENOTFOUND";
    const record = records[name];
    if (record === undefined) throw Object.assign(new Error(name), { code });
    return [[record]];
  };
  const of = (...checks: Check[]) => {
    const [spf = none, ...signatures] = checks;
    return findOrganizationalDomains({ spf, signatures, authors: [], fromFields: 1 }, ask);
  };

  test.each<[name: string, checks: Check[], expected: string[]]>([
    ["nothing passes", [none, failed("provider.example")], []],
    ["SPF and DKIM", [passed("a.example"), passed("B.Example.")], ["a.example", "b.example"]],
    ["once", [passed("x.provider.example"), passed("provider.example")], ["provider.example"]],
    ["below a public suffix", [passed("x.one.suffix.example")], ["one.suffix.example"]],
    ["DNS does not say", [passed("mail.down.example")], ["mail.down.example"]],
    ["not in A-labels", [none, passed("pro\u00advider.example"), passed("b\u00fccher.example")], []],
  ])("%s", async (_name, checks, expected) => {
    expect(await of(...checks)).toEqual(expected);
  });
});
