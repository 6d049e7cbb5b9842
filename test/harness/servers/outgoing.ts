/** Sending over a store in memory: the parts of the appliance from API fields to the queue, with parsing in this process. */
import { eq } from "drizzle-orm";
import type { Caller } from "../../../src/access/caller.ts";
import { makeDkimKeys } from "../../../src/admin/domains.ts";
import { type SigningKey, signHeader, writeDkimSignatures } from "../../../src/authentication/dkim.ts";
import { AppError } from "../../../src/base/errors.ts";
import { prepareMessage } from "../../../src/mailbox/filing/prepare.ts";
import { getMessage } from "../../../src/mailbox/reading/messages.ts";
import { type Composition, isComposition, serializeComposition } from "../../../src/message/composition.ts";
import { recodeForTransport, UNKNOWN_SERVER } from "../../../src/message/recode.ts";
import type { Submission } from "../../../src/outbound/accept.ts";
import { type Recipient, readOutboundContent } from "../../../src/outbound/queue.ts";
import { suppress } from "../../../src/outbound/suppression.ts";
import { readMessageSource, type Source } from "../../../src/smtp/spool.ts";
import * as schema from "../../../src/store/schema.ts";
import { storeOutboundContent } from "../../../src/workers/jobs.ts";
import type { ParserPool } from "../../../src/workers/parser-pool.ts";
import { sendCore } from "./core.ts";
import { createWorld } from "./mailbox-world.ts";

/** The DKIM-Signature fields of a message, as the server makes them together with a parser. */
export const sign = (message: Uint8Array, keys: readonly SigningKey[], signedAt: number): Promise<string> =>
  writeDkimSignatures(message, keys, signedAt, (signer, header) => signHeader(keys[signer] as SigningKey, header));

/** Limit of recipients in the queue. */
export const LARGEST_QUEUE = 1_000;

const madeKeys = makeDkimKeys();

/**
 * example.test, verified three weeks ago, with DKIM keys: alice@ (the owner's; alias sales@) and team@, which member bob
 * may only view and member carl may send from. Bob has bob@. `unverified.test` is of the same workspace: owner@ there.
 */
export async function createOffice() {
  const world = createWorld();
  const sending = sendCore(world.core);
  const { db, store, options, runtime, log, lines } = sending;

  const workspaceId = world.workspace("Demo", "example.test");
  const DAY = 24 * 3_600_000;
  const verify = (name: string, verifiedAt: number) =>
    db.update(schema.domains).set({ verifiedAt }).where(eq(schema.domains.name, name)).run();
  verify("example.test", runtime.now() - 21 * DAY);
  const domain = db.select().from(schema.domains).get();
  for (const key of await madeKeys) {
    db.insert(schema.dkimKeys)
      .values({ ...key, domainId: domain?.id ?? "", selector: `${key.algorithm}-1`, createdAt: runtime.now() })
      .run();
  }
  const alice = world.user(workspaceId, "alice@example.test", "owner");
  const bob = world.user(workspaceId, "bob@example.test", "member");
  const carl = world.user(workspaceId, "carl@example.test", "member");
  const boxes = {
    alice: world.box(workspaceId, "alice@example.test", alice),
    bob: world.box(workspaceId, "bob@example.test", bob),
    team: world.box(workspaceId, "team@example.test"),
  };
  db.update(schema.mailboxes).set({ name: "Alice Example" }).where(eq(schema.mailboxes.id, boxes.alice)).run();
  world.alias(boxes.alice, "sales@example.test");
  world.grant(boxes.team, bob, "view");
  world.grant(boxes.team, carl, "send");

  const bytesIn = async (source: Source | Composition): Promise<Uint8Array> =>
    isComposition(source) ? serializeComposition(source, store.blobs.read) : readMessageSource(source);
  const parser: ParserPool = {
    ...sending.parser,
    prepare: async (_, source) =>
      prepareMessage(await bytesIn(source), store.blobs, { written: isComposition(source) }),
    async prepareOutbound(_, source, { keys, signedAt }) {
      const bytes = await bytesIn(source);
      const leaving = await recodeForTransport(bytes, UNKNOWN_SERVER);
      const signatures = Buffer.from(await sign(leaving, keys, signedAt), "latin1");
      return {
        message: await prepareMessage(bytes, store.blobs, { written: true }),
        content: await storeOutboundContent(store.blobs, signatures, leaving),
      };
    },
  };
  /** The reply of the smarthost, which tests change. */
  const smarthost: { refusal: string | undefined } = { refusal: undefined };
  const transport = { ...sending.transport, refusal: async () => smarthost.refusal };
  const core = { ...sending, parser, transport, largestQueue: LARGEST_QUEUE };

  /** Counts stored rows of each kind. A refused message may leave none. */
  const stored = (): Record<string, unknown> => {
    const count = (table: string) => db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n;
    const tables = ["messages", "threads", "outbound_messages", "outbound_contents", "queue_entries", "events"];
    return Object.fromEntries(tables.map((table) => [table, count(table)]));
  };

  return {
    ...world,
    core,
    world,
    workspaceId,
    alice,
    bob,
    carl,
    boxes,
    options,
    parser,
    smarthost,
    stored,
    verify,
    lines,
    log,
    set: (name: string, value: string) => store.transact((tx) => options.set(tx, name, value)),
    pauseMailbox: (id: string, pausedReason: string | null) =>
      db.update(schema.mailboxes).set({ pausedReason }).where(eq(schema.mailboxes.id, id)).run(),
    pauseWorkspace: (pausedReason: string | null) => db.update(schema.workspaces).set({ pausedReason }).run(),
    quota: (id: string, quotaBytes: number) =>
      db.update(schema.mailboxes).set({ quotaBytes }).where(eq(schema.mailboxes.id, id)).run(),
    suppress: (address: string) =>
      store.transact((tx) => {
        suppress(tx, { id: `sup_${address}`, workspaceId, address, reason: "hard bounce", now: runtime.now() });
      }),
    /** All messages in the queue, oldest first, with recipients and bytes. */
    queued: async () =>
      Promise.all(
        db
          .select()
          .from(schema.outboundMessages)
          .all()
          .map(async (message) => ({
            ...message,
            entries: db.select().from(schema.queueEntries).where(eq(schema.queueEntries.messageSeq, message.seq)).all(),
            bytes: Buffer.from(await readOutboundContent(store, message.seq)).toString("latin1"),
          })),
      ),
    /** Writes a message of Alice, as a mail app sends it. */
    submission(recipients: Recipient[], more: Partial<Submission> = {}): Submission {
      return {
        caller: alice,
        mailbox: {
          id: boxes.alice,
          address: "alice@example.test",
          name: "Alice",
          ownerId: alice.userId,
          workspaceId,
        },
        from: "alice@example.test",
        recipients,
        messageId: "<1@example.test>",
        compose: async () =>
          new TextEncoder().encode(
            "From: alice@example.test\r\nTo: dave@remote.example\r\nSubject: Hi\r\nMessage-ID: <1@example.test>\r\n\r\nHi.\r\n",
          ),
        ...more,
      };
    },
    as: (caller: Caller) => ({
      message: (id: string) => getMessage(core, caller, id, { html: true }),
    }),
  };
}

export type Office = Awaited<ReturnType<typeof createOffice>>;

/** Makes `count` recipients on other servers. */
export const outsiders = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, i) => `r${from + i}@remote.example`);

/** Returns the refusal of a request. */
export async function refusal(request: Promise<unknown>): Promise<AppError> {
  const error = await request.then(
    () => new Error("it was accepted"),
    (error) => error,
  );
  if (!(error instanceof AppError)) throw error;
  return error;
}
