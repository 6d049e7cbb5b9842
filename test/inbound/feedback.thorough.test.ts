/** Bounces of other servers, from a corpus. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { ReportedRecipient } from "../../src/message/bounce.ts";
import { type Report, readMailReport } from "../../src/message/report.ts";
import { isHardFailure } from "../../src/smtp/delivery-result.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { createReceiver, from } from "./feedback-rig.ts";

describe.skipIf(!corpusPresent)(`bounces of other servers${corpusNote}`, () => {
  let bounces: { name: string; bytes: Uint8Array; report: Report | undefined }[];
  beforeAll(async () => {
    // A third of them, which has every kind: each costs a dozen files.
    const files = corpusFiles("sisimai").filter((_file, i) => i % 3 === 0);
    bounces = await Promise.all(files.map(async (file) => ({ ...file, report: await readMailReport(file.bytes) })));
  });

  const SENDABLE = /^[\w.+=-]+@[a-z0-9.-]+$/i;
  const isHardFor = ({ bareAtRcpt, code, status }: ReportedRecipient) =>
    isHardFailure(bareAtRcpt ? { command: "rcpt", code } : { code, status });

  test("count once for the recipients that they name, by the return path", async () => {
    const { delivered, receive, states, told } = createReceiver();
    const expected: [name: string, recipient: string, hard: boolean][] = [];
    const nameOf = new Map<string, string>();
    for (const { name, bytes, report } of bounces) {
      if (report?.kind !== "delivery") continue;
      // Some are about addresses that no mail can be sent to.
      const reported = report.recipients.filter(({ recipient }) => SENDABLE.test(recipient));
      const failed = new Map(
        reported.flatMap((one) => (one.action === "failed" ? [[one.recipient, isHardFor(one)] as const] : [])),
      );
      if (failed.size === 0) continue;
      const message = await delivered({ to: [...new Set(reported.map(({ recipient }) => recipient))].join(", ") });
      nameOf.set(message.id, name);
      for (let time = 0; time < 2; time++) await receive(bytes, { to: [message.returnPath] });
      const bounced = Object.entries(states(message)).flatMap(([recipient, state]) =>
        state === "bounced" ? recipient : [],
      );
      expect([name, bounced]).toEqual([name, [...failed.keys()]]);
      for (const [recipient, hard] of failed) expected.push([name, recipient, hard]);
    }
    const bounced = told().filter(({ event }) => event === "message.bounced");
    expect(bounced.map(({ data }) => [nameOf.get(String(data.emailId)), data.recipient, data.hard])).toEqual(expected);
    expect(nameOf.size).toBeGreaterThan(150);
  }, 300_000);

  test("count by the Message-ID alone: one of each kind of server", async () => {
    const { delivered, receive, states, notices } = createReceiver(from("mx.remote.example"));
    const kinds = new Set<string>();
    for (const { name, bytes, report } of bounces) {
      const kind = /([a-z0-9-]+)-\d+\.eml$/.exec(name)?.[1] ?? "";
      if (report?.kind !== "delivery" || report.messageId === undefined || kinds.has(kind)) continue;
      const { messageId, recipients } = report;
      const failed = recipients.filter(({ action }) => action === "failed").map(({ recipient }) => recipient);
      if (failed.length === 0 || !failed.every((recipient) => SENDABLE.test(recipient))) continue;
      kinds.add(kind);
      const message = await delivered({ to: failed.join(", "), messageId });
      await receive(bytes, { to: ["alice@example.test"] });
      expect([name, new Set(Object.values(states(message)))]).toEqual([name, new Set(["bounced"])]);
      expect(notices(message).at(-1)?.text).toContain(failed[0] ?? name);
    }
    expect(kinds.size).toBeGreaterThan(40);
  }, 300_000);
});
