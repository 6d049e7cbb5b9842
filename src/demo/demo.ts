/**
 * The demo workspace, with people, mailboxes and mail. Its mail goes through prepareMessage and filing like all mail,
 * so the demo shows what the appliance does. It is loaded whole or not at all.
 */
import { eq } from "drizzle-orm";
import { createApiKey, findCaller, reviveApiKey, verifyPassword } from "../access/credentials.ts";
import * as domains from "../admin/domains.ts";
import { makeDkimKeys } from "../admin/domains.ts";
import * as mailboxAdmin from "../admin/mailbox-admin.ts";
import * as people from "../admin/people.ts";
import { hashNewPassword } from "../admin/people.ts";
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { AppError } from "../base/errors.ts";
import { setThreadSnooze } from "../mailbox/changing/change.ts";
import { markHoldNotified, putHold } from "../mailbox/changing/holds.ts";
import { updateThread } from "../mailbox/changing/threads.ts";
import { fileMessage } from "../mailbox/filing/filing.ts";
import { type PreparedMessage, prepareMessage } from "../mailbox/filing/prepare.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { normalizeAddress, parseAddressList } from "../message/address.ts";
import { composeMessage } from "../message/compose.ts";
import { MAIL_SCOPES, type Policy, users } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { DOMAIN, findDemo, NAME } from "./demo-folder.ts";
import {
  ADA,
  AGENT,
  ALIASES,
  ANSWERS,
  BEN,
  CONVERSATIONS,
  type DemoAnswer,
  type DemoConversation,
  type DemoMessage,
  SUPPORT,
} from "./demo-mail.ts";

/** Password and API key, which are the same in every demo. */
const CREDENTIALS = {
  password: "publicDemoPassword",
  key: "mr_demoThisKeyIsPublicAndOpensOnlyDemosOfMailroom",
} as const;
const HOUR_MS = 3_600_000;

export interface Demo {
  /** Sign-in name of the person whom the key acts for. */
  address: string;
  password: string;
  key: string;
}

/**
 * Loads the demo into an empty data folder. The demo's own data folder keeps its mail; its key and password work again
 * if they were changed. @throws AppError conflict for any other data folder
 */
export async function loadDemo(core: MailCore): Promise<Demo> {
  const { store, runtime } = core;
  const known = findDemo(core);
  if (known) return { address: await reopen(core, known.id), ...CREDENTIALS };
  if (workspaceAdmin.listWorkspaces(core).length > 0) {
    throw new AppError(
      "conflict",
      "--demo needs an empty data folder, and this one is in use: set MAILROOM_DATA to another",
    );
  }
  const [keys, prepared, answers, passwordHash] = await Promise.all([
    makeDkimKeys(),
    prepareAll(store, runtime.now()),
    prepareAnswers(store, runtime.now()),
    hashNewPassword(CREDENTIALS.password),
  ]);
  store.transact((tx) => {
    populate(core, tx, keys, passwordHash);
    fileAnswers(core, tx, answers, file(core, tx, prepared));
  });
  return { address: ADA, ...CREDENTIALS };
}

/** The text for the terminal. `http`: the listener's `host:port`, or `off`. */
export function describeDemo({ address, password, key }: Demo, http: string): string {
  return [
    `Mailroom serves the workspace ${NAME} at ${DOMAIN}. Key and password are those of every demo.`,
    `  API key   ${key}`,
    `  Sign in   ${address}  ${password}`,
    ...(http === "off" ? [] : [`  Try       curl -H 'Authorization: Bearer ${key}' http://${http}/api/v1/threads`]),
    "",
  ].join("\n");
}

/** Makes the key and the password of the owner work; returns the owner's address. */
async function reopen(core: MailCore, workspaceId: string): Promise<string> {
  const { store, runtime } = core;
  const owners = people.listUsers(core, workspaceId).filter(({ role, locked }) => role === "owner" && !locked);
  const owner = owners.find(({ email }) => email === ADA) ?? owners[0];
  if (!owner) throw new AppError("conflict", `the workspace ${NAME} has no owner any more: add one with user add`);
  const { id: userId, email } = owner;
  const hash = store.db.select().from(users).where(eq(users.id, userId)).get()?.passwordHash ?? null;
  // Another password would end the sessions of open pages.
  const isSame = await verifyPassword(CREDENTIALS.password, hash);
  const passwordHash = isSame ? undefined : await hashNewPassword(CREDENTIALS.password);
  store.transact((tx) => {
    if (passwordHash !== undefined) people.setPassword(core, tx, userId, passwordHash);
    if (!reviveApiKey(tx, CREDENTIALS.key, userId)) addKey(tx, runtime, userId);
  });
  return email;
}

function addKey(tx: Tx, runtime: MailCore["runtime"], userId: string): void {
  createApiKey(tx, runtime, { userId, name: NAME, scopes: MAIL_SCOPES, key: CREDENTIALS.key });
}

/** Makes workspace, people, mailboxes, aliases, a share, and the key. */
function populate(core: MailCore, tx: Tx, keys: Awaited<ReturnType<typeof makeDkimKeys>>, passwordHash: string): void {
  const { runtime } = core;
  const workspaceId = workspaceAdmin.addWorkspace(core, tx, NAME).id;
  domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, DOMAIN, keys).id);
  const person = { workspaceId, ownMailbox: true };
  const ada = people.addUser(core, tx, { ...person, email: ADA, name: "Ada Okafor", role: "owner", passwordHash });
  const ben = people.addUser(core, tx, { ...person, email: BEN, name: "Ben Lindqvist", role: "member" });
  const support = mailboxAdmin.addMailbox(core, tx, { workspaceId, address: SUPPORT, name: "Lantern Works Support" });
  mailboxAdmin.grantMailboxAccess(tx, support, ben.userId, "full");
  for (const [alias, address] of Object.entries(ALIASES))
    mailboxAdmin.addAlias(core, tx, mailboxAdmin.getMailboxByAddress(core, address).id, alias);
  addKey(tx, runtime, ada.userId);
}

interface PreparedConversation {
  conversation: DemoConversation;
  messages: { written: DemoMessage; prepared: PreparedMessage; at: number }[];
}

function prepareAll(store: Store, now: number): Promise<PreparedConversation[]> {
  return Promise.all(
    CONVERSATIONS.map(async (conversation, i) => ({
      conversation,
      messages: await Promise.all(
        conversation.messages.map(async (written, j) => {
          const at = now - written.hoursAgo * HOUR_MS;
          const bytes = composeMessage({
            id: `demo-${i}-${j}`,
            headers: buildDemoHeaders(conversation, i, j, at),
            text: written.text,
            ...(written.html !== undefined && { html: written.html }),
            attachments: written.attachments ?? [],
          });
          return { written, at, prepared: await prepareMessage(bytes, store.blobs) };
        }),
      ),
    })),
  );
}

function buildDemoHeaders(
  { subject, messages }: DemoConversation,
  i: number,
  j: number,
  at: number,
): [string, string][] {
  const { from, to, cc } = messages[j] as DemoMessage;
  const demoMessageId = (index: number): string => `<demo.${i}.${index}@${DOMAIN}>`;
  const earlier = messages.slice(0, j).map((_, index) => demoMessageId(index));
  return [
    ["From", from],
    ["To", to],
    ...(cc === undefined ? [] : [["Cc", cc] as [string, string]]),
    ["Subject", j === 0 ? subject : `Re: ${subject}`],
    ["Date", new Date(at).toUTCString().replace("GMT", "+0000")],
    ["Message-ID", demoMessageId(j)],
    ...(j === 0
      ? []
      : ([
          ["In-Reply-To", demoMessageId(j - 1)],
          ["References", earlier.join(" ")],
        ] as [string, string][])),
  ];
}

/** Returns the ids of Ada's conversations by their subjects. */
function file(core: MailCore, tx: Tx, prepared: PreparedConversation[]): Map<string, string> {
  const { runtime } = core;
  const caller = findCaller(tx, CREDENTIALS.key);
  if (!caller) throw new Error("the demo's key does not work");
  const threadIds = new Map<string, string>();
  for (const { conversation, messages } of prepared) {
    for (const address of [conversation.mailbox, conversation.alsoIn]) {
      if (address === undefined) continue;
      const { id: mailboxId, ownerId } = mailboxAdmin.getMailboxByAddress(core, address);
      // Ben answers for the shared mailbox.
      const sentBy = ownerId ?? people.getUserByAddress(core, BEN).id;
      let threadId = "";
      for (const { written, prepared: message, at } of messages) {
        const own = parseAddressList(written.from)[0]?.email === address;
        ({ threadId } = fileMessage(core, tx, {
          mailboxId,
          receivedOn: own ? address : findArrivalAddress(written, address),
          message,
          now: at,
          ...(conversation.spam && { spam: true }),
          ...(own && { kind: "sent", sentBy }),
        }));
      }
      const { labels, starred, unread = false, folder, snoozedFor } = conversation;
      updateThread(core, caller, threadId, { unread, starred, addLabels: labels, folder });
      if (snoozedFor !== undefined) setThreadSnooze(tx, threadId, runtime.now() + snoozedFor * HOUR_MS);
      if (address === ADA) threadIds.set(conversation.subject, threadId);
    }
  }
  return threadIds;
}

interface PreparedAnswer {
  answer: DemoAnswer;
  bytes: Uint8Array;
  prepared: PreparedMessage;
  at: number;
}

function prepareAnswers(store: Store, now: number): Promise<PreparedAnswer[]> {
  return Promise.all(
    ANSWERS.map(async (answer, i) => {
      const { answers, from, to, cc, hoursAgo, text } = answer;
      const at = now - hoursAgo * HOUR_MS;
      const answered = `<demo.${CONVERSATIONS.findIndex(({ subject }) => subject === answers)}.0@${DOMAIN}>`;
      const headers: [string, string][] = [
        ["From", from],
        ["To", to],
        ...(cc === undefined ? [] : [["Cc", cc] as [string, string]]),
        ["Subject", `Re: ${answers}`],
        ["Date", new Date(at).toUTCString().replace("GMT", "+0000")],
        ["Message-ID", `<demo.answer.${i}@${DOMAIN}>`],
        ["In-Reply-To", answered],
        ["References", answered],
      ];
      const bytes = composeMessage({ id: `demo-answer-${i}`, headers, text, attachments: [] });
      return { answer, bytes, at, prepared: await prepareMessage(bytes, store.blobs) };
    }),
  );
}

/** Files what an agent wrote: a draft, and a message that waits for approval. */
function fileAnswers(
  core: MailCore,
  tx: Tx,
  prepared: readonly PreparedAnswer[],
  threadIds: ReadonlyMap<string, string>,
): void {
  const { runtime } = core;
  const { id: userId, name: person } = people.getUserByAddress(core, ADA);
  const { id: mailboxId } = mailboxAdmin.getMailboxByAddress(core, ADA);
  const policy = { recipients: ["thread"], send: "hold" } satisfies Policy;
  const { id: keyId } = createApiKey(tx, runtime, { userId, name: AGENT, scopes: MAIL_SCOPES, policy });
  for (const { answer, bytes, prepared: message, at } of prepared) {
    const answers = threadIds.get(answer.answers);
    if (answers === undefined) throw new Error(`the demo has no conversation ${answer.answers}`);
    const receivedOn = message.from?.email ?? ADA;
    const filing = { kind: "draft", mailboxId, receivedOn, message, now: at, sentBy: userId } as const;
    if (answer.kind === "draft") {
      fileMessage(core, tx, { ...filing, draft: { answers, agent: { key: AGENT, person } } });
      continue;
    }
    const { seq, messageId: emailId } = fileMessage(core, tx, { ...filing, held: true });
    putHold(tx, {
      ...{ seq, emailId, mailboxId, keyId, userId, answers },
      reason: "A person approves everything that this key sends",
      since: at,
      sendAt: null,
      recipients: (["to", "cc"] as const).flatMap((field) => message[field].map((one) => ({ ...one, field }))),
      dsn: {},
      content: { bytes },
    });
    // Otherwise the demo would begin with a notice about it.
    markHoldNotified(tx, seq, at);
  }
}

/** The recipient that is the mailbox's address or one of its aliases. */
function findArrivalAddress({ to, cc = "" }: DemoMessage, mailbox: string): string {
  const aliases: Readonly<Record<string, string>> = ALIASES;
  const recipients = parseAddressList(`${to}, ${cc}`).map(({ email }) => normalizeAddress(email) ?? email);
  return recipients.find((email) => email === mailbox || aliases[email] === mailbox) ?? mailbox;
}
