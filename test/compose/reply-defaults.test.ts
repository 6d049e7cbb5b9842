/** The defaults of a reply: recipients, subject and references (rules: Reply; RFC 5322 §3.6.4). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type AnsweredMessage, replyHeaders, replyRecipients, replySubject } from "../../src/compose/reply.ts";
import { parseSubjectKey } from "../../src/message/subject.ts";

const address = (email: string, name?: string) => (name === undefined ? { email } : { email, name });
const message = (more: Partial<AnsweredMessage> = {}): AnsweredMessage => ({
  kind: "received",
  references: [],
  date: 0,
  from: address("carol@remote.example", "Carol"),
  replyTo: [],
  to: [address("alice@example.test")],
  cc: [],
  subject: "Plans",
  text: "",
  ...more,
});
const OURS = {
  own: new Set(["alice@example.test", "sales@example.test"]),
  arrivedOn: new Set(["anything@catch.test"]),
};

describe("a reply goes to", () => {
  for (const [what, answered, all, to, cc] of [
    ["the sender", {}, false, ["carol@remote.example"], []],
    ["the sender, not the other recipients", { cc: [address("dave@x.example")] }, false, ["carol@remote.example"], []],
    [
      "Reply-To",
      { replyTo: [address("list@x.example"), address("b@x.example")] },
      false,
      ["list@x.example", "b@x.example"],
      [],
    ],
    [
      "everybody except own addresses, including tagged ones and aliases",
      {
        to: [address("Alice@Example.test"), address("alice+news@example.test"), address("dave@x.example")],
        cc: [address("SALES@example.test"), address("anything@catch.test"), address("erin@x.example")],
      },
      true,
      ["carol@remote.example"],
      ["dave@x.example", "erin@x.example"],
    ],
    [
      "the sender, if Reply-To names nobody but the mailbox",
      { replyTo: [address("Alice+x@example.test"), address("anything@catch.test")] },
      true,
      ["carol@remote.example"],
      [],
    ],
    [
      "all that Reply-To names, if one is another than the mailbox",
      { replyTo: [address("alice@example.test"), address("dave@x.example")] },
      false,
      ["alice@example.test", "dave@x.example"],
      [],
    ],
    [
      "the list and not the sender, if Reply-To names the list",
      { replyTo: [address("list@x.example")], to: [address("list@x.example")] },
      true,
      ["list@x.example"],
      ["list@x.example"],
    ],
    ["oneself, for a message to oneself", { from: address("sales@example.test") }, true, ["sales@example.test"], []],
    ["nobody, if the sender gave no address", { from: address("unknown@unknown.invalid") }, false, [], []],
    [
      "the sender, if Reply-To names nobody",
      { replyTo: [address("x@unknown.invalid")] },
      false,
      ["carol@remote.example"],
      [],
    ],
    [
      "the recipients in To, if the message was sent from here",
      { kind: "sent", to: [address("dave@x.example")], cc: [address("erin@x.example")] },
      false,
      ["dave@x.example"],
      [],
    ],
    [
      "all recipients of a sent message",
      { kind: "sent", to: [address("dave@x.example")], cc: [address("erin@x.example")] },
      true,
      ["dave@x.example"],
      ["erin@x.example"],
    ],
    [
      "all recipients of a sent message except own addresses",
      { kind: "sent", to: [address("dave@x.example")], cc: [address("sales@example.test"), address("erin@x.example")] },
      true,
      ["dave@x.example"],
      ["erin@x.example"],
    ],
    ["nobody, for a message sent to Bcc recipients only", { kind: "sent", to: [] }, true, [], []],
    [
      "an address with its domain in A-labels and its local part as written",
      { from: address("Jörg.X@Bücher.example") },
      false,
      ["Jörg.X@xn--bcher-kva.example"],
      [],
    ],
    [
      "text that is not an address, so that sending refuses it by name",
      { from: address("carol@-bad-.example") },
      false,
      ["carol@-bad-.example"],
      [],
    ],
  ] as [string, Partial<AnsweredMessage>, boolean, string[], string[]][]) {
    test(what, () => {
      const { to: recipients, cc: copied } = replyRecipients(OURS, message(answered), { all });
      expect([recipients.map(({ email }) => email), copied.map(({ email }) => email)]).toEqual([to, cc]);
    });
  }
});

describe("the subject of a reply", () => {
  for (const [subject, expected] of [
    ["Plans", "Re: Plans"],
    ["Re: Plans", "Re: Plans"],
    ["RE: Plans", "RE: Plans"],
    ["re : Plans", "re : Plans"],
    ["Re[2]: Plans", "Re[2]: Plans"],
    ["RE(3): Plans", "RE(3): Plans"],
    ["Re^4: Plans", "Re^4: Plans"],
    ["Re2: Plans", "Re2: Plans"],
    ["Re：计划", "Re：计划"],
    ["Vá: Tervek", "Vá: Tervek"],
    ["Отв: Планы", "Отв: Планы"],
    ["AW : Pläne", "AW : Pläne"],
    ["WG: Pläne", "Re: WG: Pläne"],
    ["Re:", "Re:"],
    ["", "Re:"],
    ["Fwd: Plans", "Re: Fwd: Plans"],
    ["Fwd: Re: Plans", "Re: Fwd: Re: Plans"],
    ["Release: 1.2", "Re: Release: 1.2"],
    ["Regarding lunch", "Re: Regarding lunch"],
    ["rer: x", "Re: rer: x"],
  ] as const) {
    test(`${JSON.stringify(subject)} becomes ${JSON.stringify(expected)}`, () => {
      expect(replySubject(subject)).toBe(expected);
    });
  }

  test("is cut if it is too long", () => {
    expect(replySubject("é".repeat(20_000))).toBe(`Re: ${"é".repeat(9_996)}`);
    expect(replySubject(`Re: ${"x".repeat(9_995)}\u{1f600}`)).toBe(`Re: ${"x".repeat(9_995)}\ufffd`);
  });

  test("is that of a reply in the same conversation, and stays the same in further replies", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (subject) => {
        const reply = replySubject(subject);
        expect(replySubject(reply)).toBe(reply);
        expect(parseSubjectKey(reply)).toEqual({ key: parseSubjectKey(subject).key, isReply: true });
      }),
    );
  });
});

describe("a reply refers to", () => {
  const headers = (more: Partial<AnsweredMessage>) => Object.fromEntries(replyHeaders(message(more)));

  for (const [what, answered, expected] of [
    ["nothing, if the message has no identifiers", {}, {}],
    ["the message", { messageId: "<b@x>" }, { "In-Reply-To": "<b@x>", References: "<b@x>" }],
    [
      "the references of the message, then the message",
      { messageId: "<c@x>", inReplyTo: "<z@x>", references: ["<a@x>", "<b@x>"] },
      { "In-Reply-To": "<c@x>", References: "<a@x> <b@x> <c@x>" },
    ],
    [
      "its In-Reply-To and the message, if the message has no References",
      { messageId: "<b@x>", inReplyTo: "<a@x>" },
      { "In-Reply-To": "<b@x>", References: "<a@x> <b@x>" },
    ],
    [
      "the references of the message, if the message has no identifier",
      { references: ["<a@x>"] },
      { References: "<a@x>" },
    ],
    [
      "each identifier once",
      { messageId: "<a@x>", references: ["<a@x>", "<b@x>", "<a@x>"] },
      { "In-Reply-To": "<a@x>", References: "<a@x> <b@x>" },
    ],
    [
      "no identifier that cannot be transmitted",
      { messageId: "<ü@x>", references: ["<a b@x>", `<${"x".repeat(300)}@x>`, "<c@x>"] },
      { References: "<c@x>" },
    ],
  ] as [string, Partial<AnsweredMessage>, Record<string, string>][]) {
    test(what, () => {
      expect(headers(answered)).toEqual(expected);
    });
  }

  test("the root and the newest of many", () => {
    const references = Array.from({ length: 100 }, (_, i) => `<${i}@x>`);
    const ids = headers({ messageId: "<new@x>", references }).References?.split(" ") ?? [];
    expect(ids).toHaveLength(50);
    expect([ids[0], ids[1], ids.at(-2), ids.at(-1)]).toEqual(["<0@x>", "<52@x>", "<99@x>", "<new@x>"]);
  });

  test("as many long identifiers as fit", () => {
    const references = Array.from({ length: 100 }, (_, i) => `<${i}${"x".repeat(240)}@x>`);
    const value = headers({ messageId: "<new@x>", references }).References ?? "";
    expect(value.length).toBeLessThanOrEqual(8_000);
    expect(value).toEndWith(" <new@x>");
    expect(value.split(" ").length).toBeGreaterThan(30);
  });
});
