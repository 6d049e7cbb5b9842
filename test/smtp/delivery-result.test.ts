import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { asDeferred, isHardFailure, type Reply, toDeliveryResult } from "../../src/smtp/delivery-result.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

type Row = [text: string, kind: string, hard: boolean, status: string | undefined, reply?: string];

const asked =
  (command: Reply["command"]) =>
  (text: string): Reply => ({ command, code: Number(text.slice(0, 3)), text });

function table(command: Reply["command"], rows: Row[]): void {
  for (const [text, kind, hard, status, reply] of rows) {
    test(`${command}: ${JSON.stringify(text)} is ${kind}, hard: ${hard}`, () => {
      const result = toDeliveryResult({ ...asked(command)(text), remote: "mx.example.net" });
      expect(result).toMatchObject({ kind, hard, code: Number(text.slice(0, 3)), remote: "mx.example.net" });
      expect(result.status).toBe(status);
      if (reply !== undefined) expect(result.reply).toBe(reply);
    });
  }
}

describe("a reply to RCPT", () => {
  table("rcpt", [
    ["550 5.1.1 No such user", "refused", true, "5.1.1", "550 5.1.1 No such user"],
    ["550 5.1.0 Address rejected", "refused", true, "5.1.0"],
    ["550 5.1.2 Bad domain", "refused", true, "5.1.2"],
    ["551 5.1.6 User has moved", "refused", true, "5.1.6"],
    ["556 5.1.10 Recipient address has null MX", "refused", true, "5.1.10"],
    ["550 5.2.1 Mailbox disabled", "refused", true, "5.2.1"],
    // Statuses about the sender, in the class of addresses.
    ["553 5.1.7 Bad sender syntax", "refused", false, "5.1.7"],
    ["550 5.1.8 Bad sender domain", "refused", false, "5.1.8"],
    // Policy, full mailboxes, routing.
    ["552 5.2.2 Mailbox full", "refused", false, "5.2.2"],
    ["550 5.2.2 Over quota", "refused", false, "5.2.2"],
    ["550 5.2.0 Mailbox trouble", "refused", false, "5.2.0"],
    ["550 5.7.1 We do not relay", "refused", false, "5.7.1"],
    ["554 5.7.1 Client host blocked", "refused", false, "5.7.1"],
    ["550 5.4.1 Access denied", "refused", false, "5.4.1"],
    ["554 5.0.0 Refused", "refused", false, "5.0.0"],
    // Without a status.
    ["550 No such user", "refused", true, undefined, "550 No such user"],
    ["550", "refused", true, undefined, "550"],
    ["551 User not local", "refused", true, undefined],
    ["553 Mailbox name not allowed", "refused", true, undefined],
    ["554 Transaction failed", "refused", true, undefined],
    ["552 Quota exceeded", "refused", false, undefined],
    // Temporary.
    ["450 4.2.1 Greylisted", "deferred", false, "4.2.1", "450 4.2.1 Greylisted"],
    ["451 Try again", "deferred", false, undefined],
    ["421 4.3.2 Closing", "deferred", false, "4.3.2"],
    ["452 4.5.3 Too many recipients", "deferred", false, "4.5.3"],
    // Code and status disagree: the code counts, and the status does not blame the address.
    ["450 5.1.1 Mailbox unavailable", "deferred", false, "4.1.1"],
    ["550 4.1.1 Mailbox unavailable", "refused", false, "5.1.1"],
    ["550 4.2.1 Mailbox unavailable", "refused", false, "5.2.1"],
    ["550 2.1.5 Fine, and yet no", "refused", false, "5.1.5"],
    // Codes that accept no message.
    ["250 2.1.5 Ok", "deferred", false, "4.1.5"],
    ["354 Go on", "deferred", false, undefined],
  ]);
});

describe("the place of the status", () => {
  table("rcpt", [
    [
      "550-5.1.1 The email account\r\n550-5.1.1 does not exist\r\n550 5.1.1 see example.net",
      "refused",
      true,
      "5.1.1",
      "550 5.1.1 The email account does not exist see example.net",
    ],
    [
      "550-Requested action not taken\n550 5.1.1 no mailbox",
      "refused",
      true,
      "5.1.1",
      "550 5.1.1 Requested action not taken no mailbox",
    ],
    ["550-5.7.1 policy first\n550 5.1.1 then the address", "refused", false, "5.7.1"],
    [
      "550 sorry, no mailbox here by that name (#5.1.1)",
      "refused",
      true,
      "5.1.1",
      "550 5.1.1 sorry, no mailbox here by that name (#5.1.1)",
    ],
    ["550 #5.1.0 Address rejected.", "refused", true, "5.1.0", "550 5.1.0 Address rejected."],
    ["553 sorry, that domain isn't allowed (#5.7.1)", "refused", false, "5.7.1"],
    ["550 5.1.1: Recipient address rejected", "refused", true, "5.1.1", "550 5.1.1 Recipient address rejected"],
    ["550 5.1.1", "refused", true, "5.1.1", "550 5.1.1"],
    // IP addresses and other numbers that are no status.
    ["550 5.1.1.2 is listed", "refused", true, undefined, "550 5.1.1.2 is listed"],
    ["550 see RFC 5.1.1 for more", "refused", true, undefined],
    ["550 5.1000.1 what", "refused", true, undefined],
  ]);

  test("a status that is given goes first", () => {
    const result = toDeliveryResult({ command: "rcpt", code: 550, status: "5.7.1", text: "550 no" });
    expect(result).toMatchObject({ kind: "refused", hard: false, status: "5.7.1", reply: "550 5.7.1 no" });
  });
});

describe("a reply to any other command", () => {
  table("mail", [
    ["550 5.1.1 No such user", "refused", false, "5.1.1"],
    ["550 Sender refused", "refused", false, undefined],
    ["451 4.7.1 Later", "deferred", false, "4.7.1"],
  ]);
  table("data", [
    ["250 2.0.0 Queued", "accepted", false, "2.0.0", "250 2.0.0 Queued"],
    ["250 Ok", "accepted", false, undefined],
    ["554 5.6.0 Content refused", "refused", false, "5.6.0"],
    ["550 Content refused", "refused", false, undefined],
    ["550 5.1.1 No such user, after all", "refused", true, "5.1.1"],
    ["452 4.3.1 Disk full", "deferred", false, "4.3.1"],
  ]);
  table("connect", [
    ["554 5.1.1 Go away", "refused", false, "5.1.1"],
    ["521 No mail here", "refused", false, undefined],
    ["421 Busy", "deferred", false, undefined],
    ["220 welcome", "deferred", false, undefined],
  ]);
  table("ehlo", [["550 5.2.1 Not you", "refused", false, "5.2.1"]]);
  table("auth", [
    ["535 5.7.8 Credentials are invalid", "deferred", false, "4.7.8"],
    ["454 4.7.0 Later", "deferred", false, "4.7.0"],
  ]);
});

describe("a missing reply", () => {
  test.each([
    [{ command: "dns", status: "5.1.2", text: "no such domain" }, "refused", true],
    [{ command: "dns", status: "5.1.10", text: "null MX" }, "refused", true],
    [{ command: "dns", status: "5.4.4", text: "no host" }, "refused", false],
    [{ command: "dns", status: "5.4.6", text: "loop" }, "refused", false],
    [{ command: "dns", status: "4.4.3", text: "timeout" }, "deferred", false],
    [{ command: "connect", status: "4.4.1", text: "refused" }, "deferred", false],
    [{ command: "connect", text: "who knows" }, "deferred", false],
  ] as [Reply, string, boolean][])("%j", (answer, kind, hard) => {
    const { text, status } = answer;
    expect(toDeliveryResult(answer)).toEqual({
      kind,
      hard,
      reply: text,
      status,
      code: undefined,
      remote: undefined,
    } as never);
  });

  test("text that looks like a reply does not count as one", () => {
    expect(toDeliveryResult({ command: "connect", text: "550 5.1.1 is what a stranger wrote" })).toMatchObject({
      kind: "deferred",
      status: undefined,
    });
  });
});

describe("a report", () => {
  test.each([
    [{ status: "5.1.1" }, true],
    [{ status: "5.1.1", code: 552 }, true],
    [{ status: "5.2.1" }, true],
    [{ status: "5.1.8" }, false],
    [{ status: "5.2.2" }, false],
    [{ status: "5.0.0", code: 550 }, false],
    [{ status: "4.1.1" }, false],
    [{ code: 550 }, false],
    [{ command: "rcpt", code: 550 }, true],
    [{ command: "rcpt", code: 450 }, false],
    [{}, false],
  ] as const)("%j is hard: %p", (failure, hard) => {
    expect(isHardFailure(failure)).toBe(hard);
  });
});

test("a deferred refusal is temporary in kind and status", () => {
  const refused = toDeliveryResult(asked("rcpt")("550 5.1.1 No such user"));
  expect(asDeferred(refused)).toEqual({ ...refused, kind: "deferred", hard: false, status: "4.1.1" });
});

describe("any reply of a remote", () => {
  const answers = fc.record({
    command: fc.constantFrom<Reply["command"]>("dns", "connect", "ehlo", "auth", "mail", "rcpt", "data"),
    code: fc.option(fc.integer({ min: 0, max: 999 }), { nil: undefined }),
    text: fc.oneof(
      fc.string({ unit: anyCharacter, maxLength: 2_000 }),
      fc.stringMatching(/^(\d{3}[- ][ -~]{0,80}\r?\n){0,40}$/),
    ),
  });

  test("has no characters that turn the text around, or that only a program reads", () => {
    const text =
      "550 5.1.1 No \u202eecalp\u202c here\u200b\u{e0064}\u{e0065}, \u05e9\u05dc\u05d5\u05dd \u{1f468}\u200d\u{1f469}";
    expect(toDeliveryResult({ command: "rcpt", code: 550, text }).reply).toBe(
      "550 5.1.1 No ecalp here, \u05e9\u05dc\u05d5\u05dd \u{1f468}\u200d\u{1f469}",
    );
  });

  test("becomes one line of at most 500 characters, and only a refusal is hard", () => {
    fc.assert(
      fc.property(answers, (answer) => {
        const { kind, reply, hard, status } = toDeliveryResult(answer);
        expect(reply.length).toBeLessThanOrEqual(500);
        expect(reply).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u);
        expect(reply.isWellFormed()).toBe(true);
        if (hard) expect(kind).toBe("refused");
        if (answer.code !== undefined && answer.command !== "auth") {
          expect(kind === "refused").toBe(String(answer.code).startsWith("5"));
        }
        if (status !== undefined) expect(status[0]).toBe({ accepted: "2", deferred: "4", refused: "5" }[kind]);
      }),
    );
  });
});
