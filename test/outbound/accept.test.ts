/** Submitting: a message is accepted whole or not at all, alone or beside others (rules: Sending pipeline, Idempotency). */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { submitMessage } from "../../src/outbound/accept.ts";
import type { Recipient } from "../../src/outbound/queue.ts";
import { mailboxes } from "../../src/store/schema.ts";
import { UnparseableError } from "../../src/workers/jobs.ts";
import { letter } from "../harness/mail/mail.ts";
import { START } from "../harness/runtime.ts";
import { createOffice, refusal } from "../harness/servers/outgoing.ts";

const DAVE: Recipient = { email: "dave@remote.example", field: "to" };
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text.replaceAll(/\r?\n/g, "\r\n"));

test("the transmitted bytes are those that were composed, below their signatures", async () => {
  const office = await createOffice();
  const composed = bytesOf(letter({ from: "alice@example.test", text: " .\n..\n bare  spaces \t\n\n\n" }));
  await submitMessage(office.core, office.submission([DAVE], { compose: async () => composed }));
  const [message] = await office.queued();
  const text = Buffer.from(composed).toString("latin1");
  expect(message?.bytes.endsWith(text)).toBe(true);
  expect(message?.bytes.slice(0, -text.length)).toMatch(/^(DKIM-Signature:[^\r\n]*\r\n([ \t][^\r\n]*\r\n)*){2}$/);
});

test("the Bcc list is that of the envelope, not of the message", async () => {
  const office = await createOffice();
  const compose = async () => bytesOf(letter({ from: "alice@example.test", headers: ["Bcc: other@remote.example"] }));
  const bcc: Recipient = { email: "erin@remote.example", name: "Erin", field: "bcc" };
  const { emailId } = await submitMessage(office.core, office.submission([DAVE, bcc], { compose }));
  expect(office.as(office.alice).message(emailId).bcc).toEqual([{ email: "erin@remote.example", name: "Erin" }]);
});

test("the caller's response is recorded with the message, and rolled back with it", async () => {
  const office = await createOffice();
  const recorded: string[] = [];
  const sent = await submitMessage(
    office.core,
    office.submission([DAVE]),
    (_, { emailId }) => void recorded.push(emailId),
  );
  expect(recorded).toEqual([sent.emailId]);

  const before = office.stored();
  const failing = submitMessage(office.core, office.submission([DAVE]), () => {
    throw new Error("the response cannot be written");
  });
  expect(await failing.catch((error) => error.message)).toBe("the response cannot be written");
  expect(office.stored()).toEqual(before);
});

test("a message that fails beside others leaves the others alone, and is not stored", async () => {
  const office = await createOffice();
  const submitted = await Promise.allSettled(
    Array.from({ length: 9 }, (_, i) =>
      submitMessage(office.core, office.submission([DAVE], { messageId: `<${i}@example.test>` }), () => {
        if (i === 4) throw new Error("no");
      }),
    ),
  );
  expect(submitted.map(({ status }) => status === "fulfilled")).toEqual([
    true,
    true,
    true,
    true,
    false,
    true,
    true,
    true,
    true,
  ]);
  expect(office.stored()).toMatchObject({ messages: 8, outbound_messages: 8, queue_entries: 8, events: 8 });
  const ids = submitted.flatMap((outcome) => (outcome.status === "fulfilled" ? outcome.value.emailId : []));
  expect((await office.queued()).map(({ id }) => id).sort()).toEqual(ids.sort());
});

test("the same message submitted twice is sent twice, with two Sent copies", async () => {
  const office = await createOffice();
  const one = await submitMessage(office.core, office.submission([DAVE]));
  const two = await submitMessage(office.core, office.submission([DAVE]));
  expect(two.emailId).not.toBe(one.emailId);
  expect(two.threadId).toBe(one.threadId);
  expect(office.stored()).toMatchObject({ messages: 2, outbound_messages: 2, queue_entries: 2, events: 2 });
  const paths = (await office.queued()).map(({ returnPath }) => returnPath);
  expect(new Set(paths).size).toBe(2);
});

describe("changes during composing count", () => {
  for (const [what, change, code] of [
    ["a pause", (office) => office.pauseMailbox(office.boxes.alice, "stop"), "locked"],
    ["a lower limit", (office) => office.set("sending.mailboxPerHour", "0"), "rate_limited"],
    ["a suppression", (office) => office.suppress("dave@remote.example"), "unprocessable"],
    ["a quota", (office) => office.quota(office.boxes.alice, 10), "insufficient_storage"],
    [
      "a domain that is verified no more",
      (office) => office.store.db.$client.run("UPDATE domains SET verified_at = NULL"),
      "unprocessable",
    ],
    [
      "a mailbox that is removed",
      (office) => office.store.db.delete(mailboxes).where(eq(mailboxes.id, office.boxes.alice)).run(),
      "unprocessable",
    ],
  ] as [string, (office: Awaited<ReturnType<typeof createOffice>>) => unknown, string][]) {
    test(what, async () => {
      const office = await createOffice();
      const { compose } = office.submission([]);
      const changing = async () => {
        const bytes = await compose();
        change(office);
        return bytes;
      };
      const before = office.stored();
      const error = await refusal(submitMessage(office.core, office.submission([DAVE], { compose: changing })));
      expect(error.code).toBe(code as typeof error.code);
      expect(office.stored()).toEqual(before);
    });
  }
});

test("a message that the guardrails refuse is not composed", async () => {
  const office = await createOffice();
  office.pauseWorkspace("stop");
  let composed = 0;
  const compose = async () => {
    composed++;
    return new Uint8Array();
  };
  await refusal(submitMessage(office.core, office.submission([DAVE], { compose })));
  expect(composed).toBe(0);
});

test("a message that is too large is 413", async () => {
  const office = await createOffice();
  office.set("smtp.maxMessageBytes", "2000");
  const compose = async () => ({
    id: "x",
    headers: [["From", "alice@example.test"]] as const,
    text: "x".repeat(2_000),
  });
  const before = office.stored();
  expect((await refusal(submitMessage(office.core, office.submission([DAVE], { compose })))).code).toBe(
    "payload_too_large",
  );
  expect(office.stored()).toEqual(before);
});

test("a message that no worker can process is refused, and logged as an error", async () => {
  const office = await createOffice();
  const prepareOutbound = () => Promise.reject(new UnparseableError("took too long"));
  const core = { ...office.core, parser: { ...office.parser, prepareOutbound } };
  expect((await refusal(submitMessage(core, office.submission([DAVE])))).code).toBe("unprocessable");
  expect(office.lines.filter(({ level }) => level === "error")).toHaveLength(1);
});

test("a message is dated and counted when it is accepted, not when it was begun", async () => {
  const office = await createOffice();
  const { compose } = office.submission([]);
  const slow = async () => {
    office.runtime.advanceTo(START + 5_000);
    return compose();
  };
  await submitMessage(office.core, office.submission([DAVE], { compose: slow }));
  expect((await office.queued())[0]?.acceptedAt).toBe(START + 5_000);
});
