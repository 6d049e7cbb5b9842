/** A team over IMAP: Alice and others who share her mailbox, mail that arrives, and apps that are signed in. */
import { createAppPassword } from "../../../src/access/app-passwords.ts";
import { routeIncomingMail } from "../../../src/mailbox/state/addresses.ts";
import type { GrantAccess } from "../../../src/store/schema.ts";
import { type ImapAccount, imapAccount, type Reply } from "../clients/imap-client.ts";
import { atEndOfFile } from "../end.ts";
import type { Letter } from "../mail/mail.ts";
import { zone } from "../peers/dns-server.ts";
import { type Booted, boot, bootBeside, type Person } from "./boot.ts";
import { fileLetter, type LetterFiling } from "./core.ts";

export interface ImapWorld {
  app: Booted;
  /** The domain of all addresses. */
  domain: string;
  /** Alice's address. */
  alice: string;
  /** Files what arrives at an address of the workspace. */
  arrive(
    mail: Letter,
    at?: string,
    filing?: Partial<LetterFiling>,
  ): Promise<{ seq: number; messageId: string; threadId: string }>;
  /** Files many messages with these subjects like `arrive`, in one transaction. */
  arriveAll(subjects: readonly string[], at?: string): Promise<{ seq: number; messageId: string; threadId: string }[]>;
  /** Adds a member with a mailbox and a share of Alice's. */
  member(name: string, access?: GrantAccess): Person;
  /** An app of Alice's, or of another. */
  client(who?: { email: string; key: string }): Promise<ImapAccount>;
  /** `Folder: subject, subject` by folder, each sorted; of Alice's app, or another's. */
  mail(client: ImapAccount, prefix?: string): Promise<Record<string, string[]>>;
}

const FOLDER_NAMES = ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"];

/** An app password of Alice's, for a mail app that is no program's: a key deletes nothing for good. */
export const appPassword = ({ core, runtime, owner: { userId } }: Pick<Booted, "core" | "runtime" | "owner">): string =>
  core.store.transact((tx) => createAppPassword(tx, runtime, { userId, name: "Mail app", access: "all" })).password;

/** The UIDs of the messages with that subject in the selected mailbox. */
export async function uidsOf(client: ImapAccount, subject: string): Promise<number[]> {
  const { untagged } = await client.say(`UID SEARCH SUBJECT "${subject}"`);
  const found = untagged.find((line) => line.startsWith("* SEARCH")) ?? "";
  return found.split(" ").slice(2).map(Number);
}

/** Numbers in a set. */
export const numbersIn = (set: string): number[] =>
  set.split(",").flatMap((range) => {
    const [from = 0, to = from] = range.split(":").map(Number);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });

/** The pairs of COPYUID. */
export function copied({ untagged, text }: Reply): [from: number, to: number][] {
  const [, from = "", to = ""] = /\[COPYUID \d+ (\S+) (\S+)\]/.exec([...untagged, text].join("\n")) ?? [];
  const target = numbersIn(to);
  return from === "" ? [] : numbersIn(from).map((uid, i) => [uid, target[i] as number]);
}

/** A server of its own. */
export async function imapWorld(env: Record<string, string> = {}): Promise<ImapWorld> {
  return worldOf(await start(env), "example.test", () => {});
}

/** The server that the worlds of a file share, and what ends the apps of the latest. */
let shared: Promise<Booted> | undefined;
let worlds = 0;
let endApps = (): void => {};
atEndOfFile(() => {
  shared = undefined;
  endApps = () => {};
});

/**
 * Makes other people and mail on the server that such worlds of a file share, since a start takes longer than most tests. The
 * apps of the world before have ended. The counts of the whole server, and its clock, go on.
 */
export async function sharedImapWorld(): Promise<ImapWorld> {
  endApps();
  shared ??= start({});
  const [name, domain] = [`Team ${++worlds}`, `team${worlds}.test`];
  const apps: ImapAccount[] = [];
  endApps = () => {
    for (const app of apps) app.end();
  };
  return worldOf(await bootBeside(await shared, name, domain), domain, (app) => apps.push(app));
}

// What is sent waits, and nothing comes back.
const start = (env: Record<string, string>): Promise<Booted> =>
  boot({ MAILROOM_IMAPS: "127.0.0.1:0", ...env }, zone({ "remote.example": "SERVFAIL" }));

let senders = 0;

function worldOf(app: Booted, domain: string, signedIn: (client: ImapAccount) => void): ImapWorld {
  const { core } = app.opened;
  const port = Number(app.ready.imaps?.split(":")[1]);
  const alice = `alice@${domain}`;
  const arrive: ImapWorld["arrive"] = async (mail, at = alice, filing = {}) => {
    const route = routeIncomingMail(core.db, at, core.now());
    if (route.kind !== "mailbox") throw new Error(`nobody is at ${at}`);
    // A move to Junk teaches of its sender alone.
    const from = `sender-${++senders}@remote.example`;
    return fileLetter(core, { from, to: alice, ...mail }, { mailboxId: route.mailboxId, receivedOn: at, ...filing });
  };
  return {
    app,
    domain,
    alice,
    arrive,
    arriveAll: (subjects, at) => Promise.all(subjects.map((subject) => arrive({ subject }, at))),
    member: (name, access) =>
      app.join(`${name.toLowerCase()}@${domain}`, "member", { name, ...(access && { access }) }),
    async client(who = { email: alice, key: app.owner.apiKey }) {
      const client = await imapAccount(port, who.email, who.key);
      signedIn(client);
      return client;
    },
    async mail(client, prefix = "") {
      const found: Record<string, string[]> = {};
      for (const name of FOLDER_NAMES) {
        await client.say(`EXAMINE ${prefix}${name}`);
        const { untagged } = await client.say("FETCH 1:* (BODY.PEEK[HEADER.FIELDS (SUBJECT)])");
        const subjects = untagged.flatMap((line) => /^Subject: (.*?)\r?$/m.exec(line)?.[1] ?? []);
        if (subjects.length > 0) found[prefix + name] = subjects.sort();
      }
      return found;
    },
  };
}
