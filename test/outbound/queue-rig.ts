/** A store in memory with an outbound queue, to which messages are added as by a submission. */
import { asc } from "drizzle-orm";
import { newId } from "../../src/base/runtime.ts";
import { type Claim, type ClaimTerms, claimQueueEntries } from "../../src/outbound/claims.ts";
import { addOutbound, type NewOutbound } from "../../src/outbound/queue.ts";
import { outboundContents, queueDomains, queueEntries, type RecipientField } from "../../src/store/schema.ts";
import { storeInMemory } from "../harness/data/database.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const LEASE_MS = 30 * 60_000;

type Given = Partial<Omit<NewOutbound, "recipients">> & {
  /** Addresses. `cc:` or `bcc:` before an address puts it into that field, others are in To. */
  to: readonly string[];
};

export function createQueue(runtime = fakeRuntime(), store = storeInMemory(runtime)) {
  let count = 0;

  /** Accepts a message now. Returns the seq of its row. */
  function accept({ to, ...given }: Given): number {
    const n = ++count;
    const recipients = to.map((text) => {
      const [, field = "to", email = ""] = /^(?:(cc|bcc):)?(.*)$/.exec(text) ?? [];
      return { id: newId(runtime, "que"), email, field: field as RecipientField };
    });
    return store.transact((tx) =>
      addOutbound(tx, {
        id: `msg_${n}`,
        workspaceId: "wsp_1",
        mailboxId: "mbx_1",
        mailbox: "alice@example.test",
        threadId: `thr_${n}`,
        messageId: `<${n}@example.test>`,
        subject: `Subject ${n}`,
        domain: "example.test",
        returnPath: `bounce+${n}@example.test`,
        acceptedAt: runtime.now(),
        outsideRecipients: recipients.length,
        content: { bytes: new TextEncoder().encode(`message ${n}`) },
        ...given,
        recipients,
      }),
    );
  }

  const claimAt = (now: number, terms: Partial<ClaimTerms> = {}): Claim | undefined =>
    store.transact((tx) => claimQueueEntries(tx, { now, leaseUntil: now + LEASE_MS, ...terms }) as never);

  return {
    store,
    runtime,
    accept,
    /** Claims now; the lease is half an hour. */
    claimNext: (terms: Partial<ClaimTerms> = {}) => claimAt(runtime.now(), terms),
    entries: () => store.db.select().from(queueEntries).orderBy(asc(queueEntries.seq)).all(),
    /** The domains in queue_domains, with the time when each is due, in ms from START. */
    domainsDue: () =>
      Object.fromEntries(
        store.db
          .select()
          .from(queueDomains)
          .all()
          .map(({ domain, dueAt }) => [domain, dueAt - START]),
      ),
    contents: () => store.db.select().from(outboundContents).all(),
  };
}

/** The local parts of the claimed recipients. */
export const claimed = (given: Claim | undefined): string[] | undefined =>
  given?.entries.map(({ recipient }) => recipient);
