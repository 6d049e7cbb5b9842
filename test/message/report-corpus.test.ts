/**
 * Compares the bounces and complaints of sisimai with their expectations: number of recipients, reply code, status.
 * Each difference is listed with its file and reason and asserted, so that no entry outlives its cause. Mail of other
 * projects counts as a report only if it is one.
 */
import { describe, expect, test } from "bun:test";
import { normalizeAddress } from "../../src/message/address.ts";
import { type Report, readMailReport } from "../../src/message/report.ts";
import { corpusFiles, corpusJson, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

interface Expected {
  feedback?: string;
  /** A reply code, or "". */
  reply: string;
  status: string;
  /** The reason in sisimai's terms. */
  reason: string;
}

const EXPECTED = corpusPresent ? (corpusJson("sisimai/expected.json") as Record<string, Expected[]>) : {};
const BOUNCES = corpusFiles("sisimai").filter(({ name }) => !name.includes("/not/"));
const baseName = (name: string) => name.slice(name.lastIndexOf("/") + 1);

const VACATION = "an automatic reply of a person's mailbox is not a report";
const FOREIGN = "JSON of another company's notification service, not a report by mail";
const NO_MARK = "nothing in its header tells it from ordinary mail, and its sender is no mail system";
const LIST = "a mailing list declines what a member wrote: it was delivered to the list";

const NO_REPORT: Record<string, string> = {
  "arf-26.eml": "a wish to unsubscribe, sent as mail: no provider says that it was a complaint",
  "lhost-amazonses-09.eml": FOREIGN,
  "lhost-amazonses-10.eml": FOREIGN,
  "lhost-amazonses-11.eml": FOREIGN,
  "lhost-amazonses-12.eml": FOREIGN,
  "lhost-amazonses-13.eml": FOREIGN,
  "lhost-fml-02.eml": LIST,
  "lhost-fml-03.eml": LIST,
  "lhost-kddi-01.eml": NO_MARK,
  "lhost-kddi-02.eml": NO_MARK,
  "lhost-kddi-03.eml": NO_MARK,
  "lhost-sendmail-14.eml": "a person forwards a bounce",
  "rfc3834-01.eml": VACATION,
  "rfc3834-02.eml": VACATION,
  "rfc3834-03.eml": VACATION,
  "rfc3834-04.eml": VACATION,
  "rfc3834-05.eml": VACATION,
};

const OLD_SES = "two replies in one line, the second in quotes: they read that, we the first";
const EXPIRED = "tried until it expired: they take the last reply on the way, we the verdict";
const TRANSCRIPT = "they take the line before the verdict on the recipient in the transcript, we the verdict";
const INNER = "the bounce stands inside the text of another: we read the outer one";

const DIFFERENT: Record<string, string> = {
  "lhost-amazonses-01.eml": OLD_SES,
  "lhost-amazonses-02.eml": OLD_SES,
  "lhost-amazonses-03.eml": OLD_SES,
  "lhost-amazonses-17.eml": EXPIRED,
  "lhost-amazonworkmail-05.eml": EXPIRED,
  "lhost-amazonworkmail-07.eml": EXPIRED,
  "lhost-exchange2007-05.eml": EXPIRED,
  "lhost-exim-60.eml": "the fields name a file where the address should be: what they say of it is not used",
  "lhost-postfix-49.eml": INNER,
  "lhost-postfix-50.eml": INNER,
  "lhost-sendmail-56.eml": TRANSCRIPT,
  "lhost-v5sendmail-02.eml": TRANSCRIPT,
  "lhost-v5sendmail-04.eml": TRANSCRIPT,
  "lhost-v5sendmail-05.eml": TRANSCRIPT,
  "lhost-v5sendmail-06.eml": TRANSCRIPT,
  "lhost-v5sendmail-07.eml": TRANSCRIPT,
  "rfc3464-28.eml": "two messages in one file: we read the first",
  "rhost-franceptt-10.eml": "status and reply are at odds about the class: we believe the field",
};

describe("sisimai's reports", () => {
  test.skipIf(!corpusPresent)(`there are 589${corpusNote}`, () => {
    expect(BOUNCES.map(({ name }) => baseName(name)).filter((name) => name in EXPECTED)).toHaveLength(589);
  });

  for (const { name, bytes } of BOUNCES) {
    const file = baseName(name);
    test(file, async () => {
      const report = await readMailReport(bytes);
      if (file in NO_REPORT) {
        expect(report).toBeUndefined();
        return;
      }
      const differences = differencesOf(report, EXPECTED[file] ?? []);
      if (file in DIFFERENT) expect(differences).not.toEqual([]);
      else expect(differences).toEqual([]);
    });
  }
});

/** Crude reading of a whole message/delivery-status part. */
const FINAL_RECIPIENT = /^final-recipient:\s*(?:[\w-]+\s*;)?\s*<?(?:@[^\s:]+:)?([^\s<>,;:]+@[\w.-]+)/gim;
/** Reports that return a bounce, whose fields must be ignored. */
const NESTED = new Set([
  "lhost-postfix-49.eml",
  "lhost-postfix-50.eml",
  "lhost-sendmail-38.eml",
  "lhost-sendmail-41.eml",
  "lhost-x5-01.eml",
  "rfc3464-28.eml",
  "rhost-yahooinc-03.eml",
]);

describe("a report", () => {
  test.skipIf(!corpusPresent)(`names the recipients of its fields${corpusNote}`, async () => {
    let compared = 0;
    for (const { name, bytes } of BOUNCES) {
      const fields = [...Buffer.from(bytes).toString("latin1").matchAll(FINAL_RECIPIENT)];
      const report = await readMailReport(bytes);
      if (fields.length === 0 || report?.kind !== "delivery" || NESTED.has(baseName(name))) continue;
      const ours = new Set(report.recipients.map(({ recipient }) => normalizeAddress(recipient)));
      expect({ name, recipients: ours }).toEqual({
        name,
        recipients: new Set(fields.map(([, address = ""]) => normalizeAddress(address))),
      });
      compared++;
    }
    expect(compared).toBeGreaterThan(300);
  });

  test.skipIf(!corpusPresent)(`names the message, if it returns a header with a Message-ID${corpusNote}`, async () => {
    const missing: string[] = [];
    for (const { name, bytes } of BOUNCES) {
      const report = await readMailReport(bytes);
      const text = Buffer.from(bytes).toString("latin1");
      const hasId = /^[ \t]*message-id:\s*<[^<>\s]+>/im.test(text.slice(text.search(/\r?\n\r?\n/)));
      if (report !== undefined && hasId && report.messageId === undefined) missing.push(baseName(name));
    }
    // The boundary of both differs from the announced one: a single text, in which a bounce looks like a returned
    // header.
    expect(missing).toEqual(["rhost-franceptt-08.eml", "rhost-google-01.eml"]);
  });
});

describe("other mail", () => {
  /** Reports among the mail of other projects. */
  const REPORTS = [
    "msg_16.txt",
    "msg_25.txt",
    "msg_43.txt",
    "multi_address_bounce1.eml",
    "multi_address_bounce2.eml",
    "multipart_report_multiple_status.eml",
    "raw_email_with_mimepart_without_content_type.eml",
    "report_422.eml",
    "report_530.eml",
  ];

  test.skipIf(!corpusPresent)(`is not taken for a report${corpusNote}`, async () => {
    const found: string[] = [];
    const folders = ["stalwart-mail-parser", "mikel-mail", "mime4j-testmsgs", "cpython-test-email", "spamassassin"];
    for (const { name, bytes } of corpusFiles(...folders)) {
      if ((await readMailReport(bytes)) !== undefined) found.push(baseName(name));
    }
    expect(found.sort()).toEqual(REPORTS);
  });

  test.skipIf(!corpusPresent)(
    `of sisimai's is none, but for a bounce that sisimai cannot read${corpusNote}`,
    async () => {
      const found: string[] = [];
      for (const { name, bytes } of corpusFiles("sisimai", "sisimai-extra").filter(({ name }) =>
        name.includes("/not/"),
      )) {
        if ((await readMailReport(bytes)) !== undefined) found.push(baseName(name));
      }
      expect(found).toEqual(["rb-issue-368-bug.eml"]);
    },
  );

  test.skipIf(!corpusPresent)(`a folder of bounces is read message by message${corpusNote}`, async () => {
    const unread: string[] = [];
    for (const { name, bytes } of corpusFiles("sisimai-extra").filter(({ name }) => /mbox-\d#/.test(name))) {
      if ((await readMailReport(bytes))?.kind !== "delivery") unread.push(baseName(name));
    }
    // A person forwards a bounce.
    expect(unread).toEqual(["mbox-0#36"]);
  });
});

function differencesOf(report: Report | undefined, expected: readonly Expected[]): string[] {
  if (report === undefined) return ["no report"];
  if (report.kind === "feedback") {
    // Providers that redact the complainant name fewer recipients, or none.
    const isType = expected.every(({ feedback }) => feedback === report.type);
    return isType && report.recipients.length <= expected.length ? [] : [`${report.type} ${report.recipients}`];
  }
  const differences: string[] = [];
  if (report.recipients.length !== expected.length) differences.push(`${report.recipients.length} recipients`);
  for (const [index, { reply, status, reason }] of expected.entries()) {
    const ours = report.recipients[index];
    // Without a status, sisimai invents one: 5.0.9xx for each of its reasons.
    const theirs = /^[45]\.0\.9\d\d$/.test(status) ? "" : status;
    if (reply !== "" && ours?.code !== Number(reply)) differences.push(`code ${ours?.code}, not ${reply}`);
    if (theirs !== "" && ours?.status !== theirs) differences.push(`status ${ours?.status}, not ${theirs}`);
    if ((reason === "delivered") !== (ours?.action === "delivered")) differences.push(`${ours?.action}: ${reason}`);
  }
  return differences;
}
