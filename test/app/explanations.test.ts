/** The explanations of verdicts and of the junk filter's classification. */
import { expect, test } from "bun:test";
import { explainAuth } from "../../src/app/lib/explanations.ts";
import { whySpam } from "../../src/app/lib/spam-reasons.ts";

const FROM = "bea@remote.example";

test.each<[dmarc: string, tone: string, short: RegExp]>([
  ["pass", "good", /^Sent by remote\.example$/],
  ["fail", "bad", /^remote\.example does not confirm that it sent this/],
  ["none", "unknown", /^We couldn’t verify this came from remote\.example\.$/],
  ["temperror", "unknown", /^We couldn’t verify this came from remote\.example/],
  ["permerror", "unknown", /^We couldn’t verify/],
])("DMARC %s: one sentence says what it means for the sender", (dmarc, tone, short) => {
  const explained = explainAuth({ spf: "pass", dkim: "none", dmarc }, FROM);
  expect(explained.tone).toBe(tone as "good");
  expect(explained.short).toMatch(short);
  expect(explained.checks.map(({ name, verdict }) => [name, verdict])).toEqual([
    ["DMARC", dmarc],
    ["SPF", "pass"],
    ["DKIM", "none"],
  ]);
});

test.each(["fail", "softfail", "neutral", "none", "temperror", "permerror", "pass"])(
  "%s is explained, as the verdict of SPF and of DKIM",
  (spf) => {
    const { checks } = explainAuth({ spf, dkim: spf, dmarc: "none" }, FROM);
    const [meaning = "", signed = ""] = [checks[1]?.meaning, checks[2]?.meaning];
    const failed = spf.endsWith("fail");
    expect([/is not one/.test(meaning), /does not match/.test(signed)]).toEqual([failed, failed]);
    expect(/couldn’t check/.test(meaning)).toBe(spf.endsWith("error"));
  },
);

const NOTHING = { filedFor: null, score: null, clues: [], trained: null } as const;

test.each<[string, Parameters<typeof whySpam>[0], RegExp]>([
  ["the sender", { ...NOTHING, clues: [], filedFor: "sender" }, /^Mail from bea@remote\.example was marked as spam/],
  [
    "DMARC",
    { ...NOTHING, clues: [], filedFor: "arrival" },
    /^remote\.example says it did not send this and asks us to treat it as spam\.$/,
  ],
  ["the filter", { ...NOTHING, clues: [], filedFor: "junk", score: 0.987 }, /\(score 99 of 100\)\.$/],
  ["a person", { ...NOTHING, clues: [], trained: "spam" }, /^Someone who uses this mailbox marked it/],
  ["not known", { ...NOTHING, clues: [] }, /^It was moved here/],
])("the reason for spam is named when it is %s", (_, classification, because) => {
  expect(whySpam(classification, FROM).because).toMatch(because);
});

test("clues for and against spam are listed apart, in words", () => {
  const probability = 0.99;
  const clues = [
    ...["pills", "subject:cheap", "from:@junk.example", "html:hidden", "link:address", "file:.exe", "x-mailer:bat"].map(
      (token) => ({ token, probability }),
    ),
    { token: "meeting", probability: 0.02 },
  ];
  expect(whySpam({ filedFor: "junk", score: 1, clues, trained: null }, FROM)).toMatchObject({
    spam: [
      "“pills”",
      "“cheap” in the subject",
      "mail from junk.example",
      "hidden text",
      "a link to a bare address",
      "an attachment of the kind .exe",
      "x-mailer: bat",
    ],
    wanted: ["“meeting”"],
  });
});
