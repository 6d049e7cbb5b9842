/** A team over IMAP: Alice and others who share her mailbox, mail that arrives, and apps that are signed in. */
import { createAppPassword } from "../../../src/access/app-passwords.ts";
import { routeOf } from "../../../src/mailbox/addresses.ts";
import type { GrantAccess } from "../../../src/store/schema.ts";
import { type ImapAccount, imapAccount, type Reply } from "../clients/imap-client.ts";
import type { Letter } from "../mail/mail.ts";
import { zone } from "../peers/dns-server.ts";
import { type Booted, boot, type Person } from "./boot.ts";
import { fileLetter } from "./core.ts";

export interface ImapWorld {
  app: Booted;
  /** Files what arrives at an address of the workspace. */
  arrive(mail: Letter, at?: string): Promise<{ seq: number; messageId: string; threadId: string }>;
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

export async function imapWorld(env: Record<string, string> = {}): Promise<ImapWorld> {
  // What is sent waits, and nothing comes back.
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0", ...env }, zone({ "remote.example": "SERVFAIL" }));
  const { core } = app.opened;
  const port = Number(app.ready.imaps?.split(":")[1]);
  let senders = 0;
  return {
    app,
    async arrive(mail, at = "alice@example.test") {
      const route = routeOf(core.db, at, core.now());
      if (route.kind !== "mailbox") throw new Error(`nobody is at ${at}`);
      // A move to Junk teaches of its sender alone.
      const from = `sender-${++senders}@remote.example`;
      return fileLetter(core, { from, ...mail }, { mailboxId: route.mailboxId, receivedOn: at });
    },
    member: (name, access) =>
      app.join(`${name.toLowerCase()}@example.test`, "member", { name, ...(access && { access }) }),
    client: (who = { email: "alice@example.test", key: app.owner.apiKey }) => imapAccount(port, who.email, who.key),
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
