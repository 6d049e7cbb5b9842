/**
 * The demo workspace, with people, mailboxes and mail. Its mail goes through prepareMessage and filing like all mail,
 * so the demo shows what the appliance does. It is loaded whole or not at all.
 *
 * A data folder is the demo's if its workspace is called Demo and has the domain example.test, which no real mail can
 * have (RFC 6761 §6.2).
 */
import { findCaller } from "../access/credentials.ts";
import type { Developers } from "../admin/developers.ts";
import { type Domains, makeDkimKeys } from "../admin/domains.ts";
import { hashPassword, type People } from "../admin/people.ts";
import { AppError } from "../base/errors.ts";
import { type Runtime, randomToken } from "../base/runtime.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { type PreparedMessage, prepareMessage } from "../mailbox/prepare.ts";
import { normalizeAddress, parseAddressList } from "../message/address.ts";
import { composeMessage } from "../message/compose.ts";
import { MAIL_SCOPES } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { ADA, ALIASES, BEN, CONVERSATIONS, type DemoConversation, type DemoMessage, SUPPORT } from "./conversations.ts";

const NAME = "Demo";
const DOMAIN = "example.test";
const KEY_NAME = "Demo";
/** 95 bits. */
const PASSWORD_LENGTH = 16;
const HOUR_MS = 3_600_000;

export interface Demo {
  /** Sign-in name of the person whom the key acts for. */
  address: string;
  password: string;
  key: string;
}

export interface DemoParts {
  store: Store;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  people: People;
  domains: Domains;
  developers: Developers;
  mailbox: Mailbox;
}

/**
 * Loads the demo into an empty data folder. The demo's own data folder keeps its mail and gets a new key and password,
 * since the old ones are stored nowhere. @throws AppError conflict for any other data folder
 */
export async function loadDemo(parts: DemoParts): Promise<Demo> {
  const { store, runtime, people, domains } = parts;
  const password = randomToken(runtime, PASSWORD_LENGTH);
  const passwordHash = await hashPassword(password);
  const workspaces = people.listWorkspaces();
  if (workspaces.length > 0) {
    const known = workspaces.find(({ name }) => name === NAME);
    if (!known || !domains.listDomains(known.id).some(({ name }) => name === DOMAIN)) {
      throw new AppError(
        "conflict",
        "--demo needs an empty data folder, and this one is in use: set MAILROOM_DATA to another",
      );
    }
    return { ...store.transact((tx) => reopen(tx, parts, known.id, passwordHash)), password };
  }
  const [keys, prepared] = await Promise.all([makeDkimKeys(), prepareAll(store, runtime.now())]);
  const key = store.transact((tx) => {
    const callerKey = populate(tx, parts, keys, passwordHash);
    file(tx, parts, prepared, callerKey);
    return callerKey;
  });
  return { address: ADA, password, key };
}

/** The text for the terminal. `http`: the listener's `host:port`, or `off`. */
export function describeDemo({ address, password, key }: Demo, http: string): string {
  // A listener on all addresses is shown with the loopback address.
  const origin = `http://${http.replace(/^0\.0\.0\.0:/, "127.0.0.1:").replace(/^\[::\]:/, "[::1]:")}`;
  return [
    `Mailroom serves the workspace ${NAME} at ${DOMAIN}.`,
    `  API key   ${key}`,
    `  Sign in   ${address}  ${password}`,
    ...(http === "off" ? [] : [`  Try       curl -H 'Authorization: Bearer ${key}' ${origin}/api/v1/threads`]),
    "",
  ].join("\n");
}

function reopen(tx: Tx, { people, developers }: DemoParts, workspaceId: string, passwordHash: string) {
  const owners = people.listUsers(workspaceId).filter(({ role }) => role === "owner");
  const owner = owners.find(({ email }) => email === ADA) ?? owners[0];
  if (!owner) throw new AppError("conflict", `the workspace ${NAME} has no owner any more: add one with user add`);
  people.setPassword(tx, owner.id, passwordHash);
  for (const { id, name, revokedAt } of developers.listKeys(workspaceId)) {
    if (name === KEY_NAME && revokedAt === null) developers.revokeKey(tx, id);
  }
  const { key } = developers.createKey(tx, { userId: owner.id, name: KEY_NAME, scopes: MAIL_SCOPES });
  return { address: owner.email, key };
}

/** Makes workspace, people, mailboxes, aliases, a share, and a key with MAIL_SCOPES, which it returns. */
function populate(
  tx: Tx,
  { people, domains, developers }: DemoParts,
  keys: Awaited<ReturnType<typeof makeDkimKeys>>,
  passwordHash: string,
): string {
  const workspaceId = people.addWorkspace(tx, NAME).id;
  domains.markVerified(tx, domains.addDomain(tx, workspaceId, DOMAIN, keys).id);
  const person = { workspaceId, ownMailbox: true };
  const ada = people.addUser(tx, { ...person, email: ADA, name: "Ada Okafor", role: "owner", passwordHash });
  const ben = people.addUser(tx, { ...person, email: BEN, name: "Ben Lindqvist", role: "member" });
  const support = people.addMailbox(tx, { workspaceId, address: SUPPORT, name: "Lantern Works Support" });
  people.grant(tx, support, ben.userId, "full");
  for (const [alias, address] of Object.entries(ALIASES)) people.addAlias(tx, people.mailboxAt(address).id, alias);
  return developers.createKey(tx, { userId: ada.userId, name: KEY_NAME, scopes: MAIL_SCOPES }).key;
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
            headers: headersOf(conversation, i, j, at),
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

function headersOf({ subject, messages }: DemoConversation, i: number, j: number, at: number): [string, string][] {
  const { from, to, cc } = messages[j] as DemoMessage;
  const idOf = (index: number): string => `<demo.${i}.${index}@${DOMAIN}>`;
  const earlier = messages.slice(0, j).map((_, index) => idOf(index));
  return [
    ["From", from],
    ["To", to],
    ...(cc === undefined ? [] : [["Cc", cc] as [string, string]]),
    ["Subject", j === 0 ? subject : `Re: ${subject}`],
    ["Date", new Date(at).toUTCString().replace("GMT", "+0000")],
    ["Message-ID", idOf(j)],
    ...(j === 0
      ? []
      : ([
          ["In-Reply-To", idOf(j - 1)],
          ["References", earlier.join(" ")],
        ] as [string, string][])),
  ];
}

function file(tx: Tx, { people, mailbox, runtime }: DemoParts, prepared: PreparedConversation[], key: string): void {
  const caller = findCaller(tx, key);
  if (!caller) throw new Error("the demo's key does not work");
  for (const { conversation, messages } of prepared) {
    for (const address of [conversation.mailbox, conversation.alsoIn]) {
      if (address === undefined) continue;
      const { id: mailboxId, ownerId } = people.mailboxAt(address);
      // Ben answers for the shared mailbox.
      const sentBy = ownerId ?? people.userAt(BEN).id;
      let threadId = "";
      for (const { written, prepared: message, at } of messages) {
        const own = parseAddressList(written.from)[0]?.email === address;
        ({ threadId } = mailbox.file(tx, {
          mailboxId,
          receivedOn: own ? address : arrivalOf(written, address),
          message,
          now: at,
          ...(conversation.spam && { spam: true }),
          ...(own && { kind: "sent", sentBy }),
        }));
      }
      const { labels, starred, unread = false, folder, snoozedFor } = conversation;
      mailbox.update(caller, threadId, { unread, starred, addLabels: labels, folder });
      if (snoozedFor !== undefined) mailbox.snooze(tx, threadId, runtime.now() + snoozedFor * HOUR_MS);
    }
  }
}

/** The recipient that is the mailbox's address or one of its aliases. */
function arrivalOf({ to, cc = "" }: DemoMessage, mailbox: string): string {
  const aliases: Readonly<Record<string, string>> = ALIASES;
  const recipients = parseAddressList(`${to}, ${cc}`).map(({ email }) => normalizeAddress(email) ?? email);
  return recipients.find((email) => email === mailbox || aliases[email] === mailbox) ?? mailbox;
}
