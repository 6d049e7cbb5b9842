/**
 * Long mail for many mailboxes here, from outside and from one of them: each transaction is short, and everything is
 * found in the end (rules: Arrival, Search).
 */
import { expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { countIndexBacklog } from "../../src/search/fts5/upkeep.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const MAILBOXES = 6;

/** Distinct words, whose index is the largest. */
const wordsOf = (characters: number, prefix: string): string =>
  Array.from({ length: characters / 10 }, (_, i) => `${prefix}${10_000_000 + i}`).join(" ");

/** An appliance with that many mailboxes, and what each of its commits files and indexes. */
async function officeOf(count: number) {
  const booted = await boot();
  const { core } = booted.opened;
  const { store, options } = core;
  store.transact((tx) => options.set(tx, "sending.mailboxPerHour", "1000"));
  const others = Array.from({ length: count - 1 }, (_, i) => `box${i}@example.test`);
  for (const address of others) {
    store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, { workspaceId: booted.owner.workspaceId, address, name: address }),
    );
  }
  const countRows = store.db.$client.query<{ messages: number; indexed: number }, []>(
    "SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM message_index_docsize) AS indexed",
  );
  const rows = () => countRows.get() ?? { messages: 0, indexed: 0 };
  let before = rows();
  const commits: { messages: number; indexed: number }[] = [];
  store.onCommit(() => {
    const now = rows();
    const change = { messages: now.messages - before.messages, indexed: now.indexed - before.indexed };
    if (change.messages > 0 || change.indexed > 0) commits.push(change);
    before = now;
  });
  const found = async ({ api }: Booted, word: string): Promise<number> =>
    (await api.get<{ threads: unknown[] }>(`/search?q=${word}&folder=all&limit=100`)).body.threads.length;
  return {
    ...booted,
    store,
    addresses: ["alice@example.test", ...others],
    commits,
    found: (w: string) => found(booted, w),
  };
}

test("a message from outside is filed in portions, and searchable in all mailboxes soon after the reply", async () => {
  const { mx, addresses, commits, found, advance, store } = await officeOf(MAILBOXES);
  const smtp = await connectSmtp(mx);
  const text = wordsOf(1_500_000, "w");
  expect((await smtp.deliver({ to: addresses }, letter({ text }))).code).toBe(250);
  expect(commits.filter(({ messages }) => messages > 0)).toEqual([
    { messages: 3, indexed: 1 },
    { messages: 3, indexed: 0 },
  ]);
  while (countIndexBacklog(store.db) > 0) await advance(1_000);
  // No commit indexes two.
  expect(commits.filter(({ messages }) => messages === 0).map(({ indexed }) => indexed)).toEqual([1, 1, 1, 1, 1]);
  expect(await found("w10000001")).toBe(MAILBOXES);
});

test("ordinary mail is filed in one commit, and searchable in all mailboxes when the reply comes", async () => {
  const { mx, addresses, commits, found } = await officeOf(MAILBOXES);
  const smtp = await connectSmtp(mx);
  expect((await smtp.deliver({ to: addresses }, letter({ text: wordsOf(100_000, "w") }))).code).toBe(250);
  expect(commits).toEqual([{ messages: MAILBOXES, indexed: MAILBOXES }]);
  expect(await found("w10000001")).toBe(MAILBOXES);
});

test("a message that is sent to mailboxes here is searchable in all of them soon after it is delivered", async () => {
  const { api, addresses, commits, found, advance, store } = await officeOf(MAILBOXES);
  const text = wordsOf(900_000, "s");
  const sent = await api.post("/send", { from: addresses[0], to: addresses.slice(1), subject: "Long", text });
  expect(sent.status).toBe(202);
  await advance(1_000);
  while (countIndexBacklog(store.db) > 0) await advance(1_000);
  expect(Math.max(...commits.map(({ messages }) => messages))).toBe(4);
  expect(Math.max(...commits.map(({ indexed }) => indexed))).toBe(1);
  expect(await found("s10000001")).toBe(MAILBOXES);
});
