/** A store with two workspaces and messages for the index. */
import type { EmailAddress } from "../../../src/message/address.ts";
import type { SearchEngine, SearchScope } from "../../../src/search/engine.ts";
import { foldDocument } from "../../../src/search/fold.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { createRanking } from "../../../src/search/fts5/hits.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { listSeqsInSet } from "../../../src/search/sets.ts";
import * as schema from "../../../src/store/schema.ts";
import type { Store } from "../../../src/store/store.ts";
import { storeInMemory } from "./database.ts";

export interface SeedMessage {
  /** Returned by `search`; messages with one name form a conversation. */
  thread: string;
  /** One of `mbx_a1`, `mbx_a2` (workspace `wsp_a`) and `mbx_b1` (`wsp_b`). */
  mailbox?: string;
  subject?: string;
  text?: string;
  from?: EmailAddress;
  to?: EmailAddress[];
  cc?: EmailAddress[];
  bcc?: EmailAddress[];
  files?: string[];
  date?: number;
  size?: number;
}

/** The time of every search: what older_than: and newer_than: count from. */
const NOW = Date.UTC(2025, 0, 3, 12);

const WORKSPACE_OF: Readonly<Record<string, string>> = { mbx_a1: "wsp_a", mbx_a2: "wsp_a", mbx_b1: "wsp_b" };

/** All of workspace `wsp_a`. */
export const WHOLE_A: SearchScope = { mailboxIds: ["mbx_a1", "mbx_a2"], workspaceId: "wsp_a" };

export type Seeded = ReturnType<typeof seedIndex>;

/** `create` creates the engine, which may have to wait until it is `ready`. */
export function seedIndex(
  messages: readonly SeedMessage[] = [],
  create: (store: Store) => SearchEngine = createFts5Engine,
  ready: () => Promise<void> = async () => {},
) {
  const store = storeInMemory();
  const engine = create(store);
  const seqs = new Map<string, number>();
  const ordinals = new Map<string, number>();

  store.transact((tx) => {
    for (const id of ["wsp_a", "wsp_b"]) tx.insert(schema.workspaces).values({ id, name: id, createdAt: 0 }).run();
    for (const [id, workspaceId] of Object.entries(WORKSPACE_OF)) {
      tx.insert(schema.mailboxes)
        .values({ id, workspaceId, address: `${id}@example.test`, name: id, createdAt: 0 })
        .run();
    }
  });

  function add(message: SeedMessage): void {
    const { thread, mailbox = "mbx_a1", subject = "", text = "", to = [], cc = [], bcc = [], files = [] } = message;
    const from = message.from ?? { email: "nobody@example.test" };
    const date = message.date ?? 0;
    store.transact((tx) => {
      const threadSeq = seqs.get(thread) ?? seqs.size + 1;
      if (!seqs.has(thread)) {
        tx.insert(schema.threads)
          .values({
            seq: threadSeq,
            id: `thr_${threadSeq}`,
            mailboxId: mailbox,
            folder: "inbox",
            unread: true,
            starred: false,
            lastMessageAt: date,
            hasAttachments: files.length > 0,
            messageCount: 1,
            nextOrdinal: 1,
            receivedOn: "",
            subject,
            subjectKey: "",
            snippet: "",
            counterpart: from,
            participants: [],
          })
          .run();
        seqs.set(thread, threadSeq);
      }
      const ordinal = ordinals.get(thread) ?? 0;
      ordinals.set(thread, ordinal + 1);
      const seq = threadSeq * schema.MESSAGES_PER_THREAD + ordinal;
      tx.insert(schema.messages)
        .values({
          seq,
          id: `msg_${seq}`,
          threadSeq,
          mailboxId: mailbox,
          kind: "received",
          folder: "inbox",
          read: false,
          date,
          filedAt: date,
          from,
          to,
          cc,
          bcc,
          replyTo: [],
          subject,
          snippet: "",
          size: message.size ?? 0,
          fingerprint: "",
          hasAttachments: files.length > 0,
        })
        .run();
      tx.insert(schema.messageBodies).values({ messageSeq: seq, headers: [], text, html: null, sanitizer: 0 }).run();
      files.forEach((filename, position) => {
        const name = `${seq}_${position}`;
        tx.insert(schema.attachments)
          .values({
            id: `att_${name}`,
            messageSeq: seq,
            position,
            filename,
            contentType: "a/b",
            size: 0,
            inline: false,
            blob: name,
          })
          .run();
      });
      const document = foldDocument({ subject, text, from: [from], to, cc, filenames: files });
      engine.add(tx, seq, { workspaceId: WORKSPACE_OF[mailbox] ?? "", mailboxId: mailbox }, document);
    });
  }
  for (const message of messages) add(message);

  /** Names of the conversations found, ordered by their first message. */
  async function search(q: string, scope: SearchScope = WHOLE_A): Promise<string[]> {
    await ready();
    const names = new Map([...seqs].map(([name, seq]) => [seq, name]));
    return listSeqsInSet(await engine.match(parseQuery(q, NOW), scope)).map(
      (seq) => names.get(seq) ?? `unknown ${seq}`,
    );
  }

  /** Names of the conversations found, the best first, by relevance where the engine ranks them apart. */
  async function ranked(q: string, scope: SearchScope = WHOLE_A): Promise<string[]> {
    await ready();
    const query = parseQuery(q, NOW);
    const found = listSeqsInSet(await engine.match(query, scope));
    const order = (await engine.rank?.(query, scope, found, false)) ?? createRanking(store)(query, scope, found);
    const names = new Map([...seqs].map(([name, seq]) => [seq, name]));
    return order.toSorted((a, b) => b.score - a.score).map(({ thread }) => names.get(thread) ?? `unknown ${thread}`);
  }

  return { store, engine, add, search, ranked, seqOf: (thread: string): number => seqs.get(thread) ?? Number.NaN };
}
