/** Policies of API keys: read as plain sentences, edited in a form, and proposed for purposes. Pure. */

import type { KeyView } from "../pages/settings/settings-developers.ts";
import { formatCount } from "./format.ts";
import { fullTime, toLocalTimeInput } from "./time-format.ts";

export type Policy = KeyView["policy"];
export type Scope = KeyView["scopes"][number];

/** Meaning of each scope, in words for people. */
export const SCOPE_MEANING: Readonly<Record<Scope, string>> = {
  read: "see mailboxes, conversations, messages and attachments, and search",
  send: "send and reply",
  write: "move, star and label, and draft replies for a person to send",
  admin: "administer the workspace: mailboxes, people, domains, keys and webhooks",
  approve:
    "approve what other keys want to send, in place of a person. For a program of yours that checks messages, never for an agent. It cannot approve what it sent itself, and only a person can give this permission, here",
};

/** Groups of recipients that the server finds. */
export const RECIPIENT_GROUPS = {
  thread: "people who took part in the conversation",
  workspace: "addresses at the workspace’s own domains",
  known: "people to whom the mailbox has sent mail",
} as const;
const isGroup = (entry: string): entry is keyof typeof RECIPIENT_GROUPS => Object.hasOwn(RECIPIENT_GROUPS, entry);

/** Entries that a sentence names; it counts the others. */
const MOST_NAMED = 6;

/** "a, b and c". */
function listed(entries: readonly string[], last = "and"): string {
  const shown = entries.length > MOST_NAMED ? entries.slice(0, MOST_NAMED - 1) : entries;
  const rest = entries.length - shown.length;
  const words = rest === 0 ? shown : [...shown, `${rest} more`];
  const end = words.at(-1) ?? "";
  return words.length < 2 ? end : `${words.slice(0, -1).join(", ")} ${last} ${end}`;
}

function recipientsSentence(recipients: readonly string[], otherwise: Policy["otherwise"]): string {
  const others = otherwise === "hold" ? "waits for approval" : "is refused";
  if (recipients.length === 0) return `It may not write to anybody: everything it sends ${others}.`;
  const named = recipients.map((entry) => {
    if (isGroup(entry)) return RECIPIENT_GROUPS[entry];
    return entry.startsWith("@") ? `everybody at ${entry.slice(1)}` : entry;
  });
  return `It may write to ${listed(named)}. Mail to anybody else ${others}.`;
}

/** The sentences that a policy says; none if it restricts nothing. `findMailboxAddress`: the address of a mailbox by its id. */
export function policySentences(
  policy: Policy,
  findMailboxAddress: (id: string) => string | undefined = () => undefined,
): string[] {
  const { mailboxes, recipients, recipientsPerDay, changesPerHour, expiresAt, networks } = policy;
  const sentences: (string | false | undefined)[] = [
    mailboxes &&
      (mailboxes.length === 0
        ? "It reaches no mailbox."
        : `It reaches only ${listed(mailboxes.map((named) => (named.includes("@") ? named : (findMailboxAddress(named) ?? "a mailbox that you cannot see"))))}.`),
    policy.send === "hold" && "Everything it sends waits for approval.",
    recipients && recipientsSentence(recipients, policy.otherwise),
    recipientsPerDay !== undefined && `It writes to at most ${formatCount(recipientsPerDay, "recipient")} in 24 hours.`,
    changesPerHour !== undefined && `It makes at most ${formatCount(changesPerHour, "change")} an hour.`,
    policy.codes === false && "One-time codes and sign-in links are masked in what it reads.",
    networks && (networks.length === 0 ? "It works from no network." : `It works only from ${listed(networks, "or")}.`),
    expiresAt !== undefined && `It expires ${fullTime(expiresAt)}.`,
  ];
  return sentences.filter((sentence) => typeof sentence === "string");
}

/** A policy as a form holds it. */
export interface PolicyDraft {
  /** False: `mailboxes` does not count. */
  limitsMailboxes: boolean;
  mailboxes: string[];
  /** False: `groups` and `addresses` do not count. */
  limitsRecipients: boolean;
  groups: string[];
  /** Addresses and `@domain`, separated by spaces, commas or new lines. */
  addresses: string;
  otherwise: "refuse" | "hold";
  send: "direct" | "hold";
  recipientsPerDay: string;
  changesPerHour: string;
  /** Value of a datetime-local input. */
  expiresAt: string;
  networks: string;
  masksCodes: boolean;
}

/** `findMailboxId`: the id of a mailbox by its address. */
export function policyToDraft(
  policy: Policy,
  findMailboxId: (address: string) => string | undefined = () => undefined,
): PolicyDraft {
  const { mailboxes, recipients = [], recipientsPerDay, changesPerHour, expiresAt } = policy;
  return {
    limitsMailboxes: mailboxes !== undefined,
    mailboxes: [...new Set(mailboxes?.map((named) => findMailboxId(named) ?? named))],
    limitsRecipients: policy.recipients !== undefined,
    groups: recipients.filter(isGroup),
    addresses: recipients.filter((entry) => !isGroup(entry)).join("\n"),
    otherwise: policy.otherwise ?? "refuse",
    send: policy.send ?? "direct",
    recipientsPerDay: recipientsPerDay === undefined ? "" : String(recipientsPerDay),
    changesPerHour: changesPerHour === undefined ? "" : String(changesPerHour),
    expiresAt: expiresAt === undefined ? "" : toLocalTimeInput(expiresAt),
    networks: (policy.networks ?? []).join("\n"),
    masksCodes: policy.codes === false,
  };
}

const entriesIn = (text: string): string[] => text.split(/[\s,;]+/).filter((entry) => entry !== "");

/** The policy that the form says; what it leaves open is left out. */
export function draftToPolicy(draft: PolicyDraft): Policy {
  const { limitsMailboxes, limitsRecipients, recipientsPerDay, changesPerHour, expiresAt } = draft;
  const networks = entriesIn(draft.networks);
  return {
    ...(limitsMailboxes && { mailboxes: draft.mailboxes }),
    ...(limitsRecipients && {
      recipients: [...draft.groups, ...entriesIn(draft.addresses)],
      ...(draft.otherwise === "hold" && { otherwise: draft.otherwise }),
    }),
    ...(draft.send === "hold" && { send: draft.send }),
    ...(recipientsPerDay !== "" && { recipientsPerDay: Number(recipientsPerDay) }),
    ...(changesPerHour !== "" && { changesPerHour: Number(changesPerHour) }),
    ...(expiresAt !== "" && { expiresAt: new Date(expiresAt).toISOString() }),
    ...(networks.length > 0 && { networks }),
    ...(draft.masksCodes && { codes: false }),
  };
}

/** A use of a key, with the scopes and the policy that suit it. */
export interface Purpose {
  id: string;
  name: string;
  about: string;
  scopes: readonly Scope[];
  policy: Policy;
}

export const PURPOSES: readonly Purpose[] = [
  {
    id: "reading",
    name: "Reading assistant",
    about: "Finds and summarises mail, and answers questions about it. It changes nothing and sends nothing.",
    scopes: ["read"],
    policy: {},
  },
  {
    id: "drafting",
    name: "Drafting assistant",
    about: "Sorts mail and writes drafts, which a person reads and sends.",
    scopes: ["read", "write"],
    policy: {},
  },
  {
    id: "answering",
    name: "Answering agent",
    about: "Answers people who wrote. Mail to anybody else waits for approval.",
    scopes: ["read", "send", "write"],
    policy: { recipients: ["thread"], otherwise: "hold" },
  },
  {
    id: "integration",
    name: "Integration",
    about: "A program of yours: choose what it needs.",
    scopes: [],
    policy: {},
  },
  {
    id: "full",
    name: "Full access to mail",
    about: "Everything that its person can do with mail, without approval.",
    scopes: ["read", "send", "write"],
    policy: {},
  },
];
