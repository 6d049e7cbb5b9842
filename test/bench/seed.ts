/**
 * A mailbox of many messages from a seed: straight rows in large transactions, past the parser and the filing, or a
 * million of them would take an hour. They are indexed by the program's own engine. Their texts are as long as people's
 * and say a word again as often: as those of the 4,150 messages of the SpamAssassin corpus, of which half have more than
 * 973 bytes and the mean one has 1,909; half of their words are said before in the same message.
 */
import { systemRuntime } from "../../src/base/runtime.ts";
import { foldDocument } from "../../src/search/fold.ts";
import { createFts5Engine } from "../../src/search/fts5/fts5.ts";
import { MESSAGES_PER_THREAD } from "../../src/store/schema.ts";
import { openStore, type Store, type Tx } from "../../src/store/store.ts";
import { newPlace, print } from "./figures.ts";
import { words } from "./generator.ts";

export const MESSAGES = 100_000;
/** In a tenth of the messages. */
export const COMMON_WORD = "invoice";
/** In one of ten thousand. */
export const RARE_WORD = "zanzibar";
/** In one of a hundred. */
export const PHRASE = "quarterly budget review";

/** Bytes of a text: the median, and the standard deviation of their logarithm. */
const MEDIAN_BYTES = 973;
const SPREAD = 1.16;
/** How many of the words of a text repeat one on purpose; as many do by chance, the frequent ones. */
const SAID_AGAIN = 0.25;

/** Conversations of one commit. */
const BATCH = 1_000;
const LONG_THREAD = 50;
const THREAD = 3;
const ME = { email: "owner@example.test", name: "Owner" };
const START = Date.UTC(2023, 0, 1);
const INTERVAL_MS = 2 * 60_000;

type Row = Record<string, string | number | null>;

/** Inserts rows of one shape. */
function inserter({ db }: Pick<Store, "db">, table: string): (row: Row) => void {
  let statement: ReturnType<typeof db.$client.prepare> | undefined;
  return (row) => {
    const names = Object.keys(row);
    statement ??= db.$client.prepare(
      `INSERT INTO ${table} (${names.map((name) => `"${name}"`).join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
    );
    statement.run(...Object.values(row));
  };
}

/** Fills the mailbox with conversations of three, the first of fifty; a sixth of them are unread. */
export function seedMailbox(data: string, mailboxId: string, messages: number, medianBytes = MEDIAN_BYTES): void {
  const store = openStore({ folder: data, runtime: systemRuntime() });
  const engine = createFts5Engine(store);
  const { workspaceId } = store.db.$client
    .query("SELECT workspace_id AS workspaceId FROM mailboxes WHERE id = ?")
    .get(mailboxId) as { workspaceId: string };
  const [insertThread, insertMessage, insertBody] = ["threads", "messages", "message_bodies"].map((table) =>
    inserter(store, table),
  ) as [(row: Row) => void, (row: Row) => void, (row: Row) => void];
  const { text, random } = words(7);
  /** Normally distributed, by Box and Muller. */
  const deviation = (): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const bodyText = (): string => {
    const said = text(medianBytes * Math.exp(SPREAD * deviation())).split(" ");
    for (const i of said.keys()) {
      if (i > 0 && random() < SAID_AGAIN) said[i] = said[Math.floor(random() * i)] ?? "";
    }
    const middle = said.length >> 1;
    const extras = [random() < 0.1 && COMMON_WORD, random() < 0.0001 && RARE_WORD, random() < 0.01 && PHRASE];
    const parts = [said.slice(0, middle), extras.filter(Boolean), said.slice(middle)];
    return parts.map((part) => part.join(" ")).join("\n");
  };

  let made = 0;
  let thread = 0;
  function putThread(tx: Tx): void {
    const count = thread === 0 ? LONG_THREAD : THREAD;
    const unread = thread % 6 === 0 ? 1 : 0;
    const from = { email: `person${thread % 911}@remote${thread % 31}.example`, name: `Person ${thread % 911}` };
    const subject = `${thread === 0 ? "longthread " : ""}${text(30)}`;
    const texts = Array.from({ length: count }, bodyText);
    const dateOf = (i: number): number => START + (made + i) * INTERVAL_MS;
    const seq = ++thread;
    const snippet = (texts.at(-1) ?? "").slice(0, 200);
    insertThread({
      ...{ seq, id: `thr_seeded${seq}`, mailbox_id: mailboxId, folder: "inbox", unread, starred: 0 },
      ...{ last_message_at: dateOf(count - 1), has_attachments: 0, message_count: count, next_ordinal: count },
      ...{ received_on: ME.email, subject, subject_key: subject, snippet, counterpart: JSON.stringify(from) },
      participants: JSON.stringify([from, ME]),
    });
    for (const [i, body] of texts.entries()) {
      const message = seq * MESSAGES_PER_THREAD + i;
      const number = made + i;
      insertMessage({
        ...{ seq: message, id: `msg_seeded${number}`, thread_seq: seq, mailbox_id: mailboxId, kind: "received" },
        ...{ folder: "inbox", read: 1 - unread, date: dateOf(i), filed_at: dateOf(i) },
        ...{ message_id: `<seed-${number}@remote.example>`, from: JSON.stringify(from), to: JSON.stringify([ME]) },
        ...{ cc: "[]", bcc: "[]", reply_to: "[]", subject: `${i === 0 ? "" : "Re: "}${subject}` },
        ...{
          snippet: body.slice(0, 200),
          received_on: ME.email,
          size: body.length,
          fingerprint: "",
          has_attachments: 0,
        },
      });
      insertBody({ message_seq: message, headers: "[]", text: body, sanitizer: 1 });
      const document = foldDocument({ subject, text: body, from: [from], to: [ME], cc: [], filenames: [] });
      engine.add(tx, message, { workspaceId, mailboxId }, document);
    }
    made += count;
  }

  while (made < messages) {
    store.transact((tx) => {
      for (let i = 0; i < BATCH && made < messages; i++) putThread(tx);
    });
  }
  store.close();
}

const places = new Map<number, Awaited<ReturnType<typeof newPlace>>>();

/** A place with one mailbox of so many messages, or a few more, made once a run. `medianBytes`: of their texts. */
export async function seededPlace(
  messages: number,
  medianBytes = MEDIAN_BYTES,
): Promise<Awaited<ReturnType<typeof newPlace>>> {
  const known = places.get(messages);
  if (known) return known;
  const made = await newPlace(`seeded-${messages}`);
  const started = performance.now();
  seedMailbox(made.place.data, made.mailboxId, messages, medianBytes);
  const seconds = (performance.now() - started) / 1_000;
  print({
    figure: `rows of ${messages} generated messages, with index`,
    value: messages / seconds,
    unit: "messages/s",
  });
  places.set(messages, made);
  return made;
}
