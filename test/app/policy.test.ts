/** Policies of keys in the app: their sentences, and the form that edits them. */
import { describe, expect, test } from "bun:test";
import {
  draftToPolicy,
  type Policy,
  PURPOSES,
  policySentences,
  policyToDraft,
} from "../../src/app/lib/policy-words.ts";

const addressOf = (id: string) => ({ mbx_1: "sales@example.test", mbx_2: "team@example.test" })[id];

const SAID: [what: string, policy: Policy, sentences: string[]][] = [
  ["no restriction", {}, []],
  ["what restricts nothing", { send: "direct", otherwise: "hold", codes: true }, []],
  [
    "mailboxes by id and address",
    { mailboxes: ["mbx_1", "bea@example.test", "mbx_9"] },
    ["It reaches only sales@example.test, bea@example.test and a mailbox that you cannot see."],
  ],
  ["no mailbox", { mailboxes: [] }, ["It reaches no mailbox."]],
  ["everything held", { send: "hold" }, ["Everything it sends waits for approval."]],
  [
    "the conversation, others held",
    { recipients: ["thread"], otherwise: "hold" },
    ["It may write to people who took part in the conversation. Mail to anybody else waits for approval."],
  ],
  [
    "a domain and an address, others refused",
    { recipients: ["workspace", "@remote.example", "bob@other.example"] },
    [
      "It may write to addresses at the workspace’s own domains, everybody at remote.example and bob@other.example. Mail to anybody else is refused.",
    ],
  ],
  [
    "nobody, held",
    { recipients: [], otherwise: "hold" },
    ["It may not write to anybody: everything it sends waits for approval."],
  ],
  ["nobody", { recipients: [] }, ["It may not write to anybody: everything it sends is refused."]],
  [
    "many addresses",
    {
      recipients: [
        "a@x.example",
        "b@x.example",
        "c@x.example",
        "d@x.example",
        "e@x.example",
        "f@x.example",
        "g@x.example",
      ],
    },
    [
      "It may write to a@x.example, b@x.example, c@x.example, d@x.example, e@x.example and 2 more. Mail to anybody else is refused.",
    ],
  ],
  [
    "numbers",
    { recipientsPerDay: 1, changesPerHour: 0 },
    ["It writes to at most 1 recipient in 24 hours.", "It makes at most 0 changes an hour."],
  ],
  ["codes", { codes: false }, ["One-time codes and sign-in links are masked in what it reads."]],
  ["networks", { networks: ["10.0.0.0/8", "192.0.2.1/32"] }, ["It works only from 10.0.0.0/8 or 192.0.2.1/32."]],
];

test.each(SAID)("the sentences of %s", (_, policy, sentences) => {
  expect(policySentences(policy, addressOf)).toEqual(sentences);
});

test("the end of a key is told as a time", () => {
  const [sentence] = policySentences({ expiresAt: "2030-01-07T08:00:00.000Z" });
  expect(sentence).toMatch(/^It expires .*2030/);
});

describe("the form of a policy", () => {
  const WHOLE: Policy = {
    mailboxes: ["mbx_1"],
    recipients: ["thread", "bob@remote.example", "@other.example"],
    otherwise: "hold",
    send: "hold",
    recipientsPerDay: 20,
    changesPerHour: 0,
    expiresAt: "2030-01-07T08:00:00.000Z",
    networks: ["10.0.0.0/8"],
    codes: false,
  };
  const PRESERVED: [what: string, policy: Policy][] = [
    ["with every field", WHOLE],
    ["without a field", {}],
    ["with empty lists", { mailboxes: [], recipients: [] }],
    ...PURPOSES.map(({ name, policy }): [string, Policy] => [`of the purpose ${name}`, policy]),
  ];
  test.each(PRESERVED)("gives back a policy %s", (_, policy) => {
    expect(draftToPolicy(policyToDraft(policy))).toEqual(policy);
  });

  test("has each mailbox once, whether it is named by id or address", () => {
    const idOf = (address: string) => (address === "sales@example.test" ? "mbx_1" : undefined);
    const draft = policyToDraft({ mailboxes: ["sales@example.test", "mbx_1", "mbx_2"] }, idOf);
    expect(draft.mailboxes).toEqual(["mbx_1", "mbx_2"]);
  });

  test("reads addresses and networks however they are separated, and drops what does not count", () => {
    const draft = {
      ...policyToDraft({}),
      addresses: " a@x.example,b@x.example;\n@y.example ",
      networks: "10.0.0.0/8 ::1",
    };
    expect(draftToPolicy(draft)).toEqual({ networks: ["10.0.0.0/8", "::1"] });
    expect(draftToPolicy({ ...draft, limitsRecipients: true, groups: ["known"] })).toEqual({
      recipients: ["known", "a@x.example", "b@x.example", "@y.example"],
      networks: ["10.0.0.0/8", "::1"],
    });
  });
});

test("no purpose proposes administration or approving, and reading sends nothing", () => {
  expect(PURPOSES.flatMap(({ scopes }) => scopes)).not.toContain("admin");
  expect(PURPOSES.flatMap(({ scopes }) => scopes)).not.toContain("approve");
  expect(PURPOSES.filter(({ scopes }) => scopes.includes("send")).map(({ id }) => id)).toEqual(["answering", "full"]);
});
