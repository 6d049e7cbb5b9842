/**
 * Tells the owners and admins of a workspace once that it lost its claim to a domain, because another workspace verified it.
 * The transaction of the loss marks the notice as due, and the transaction that files the notice clears the mark, so a crash
 * in between neither loses nor repeats it.
 */
import { and, asc, eq, isNotNull } from "drizzle-orm";
import type { Runtime } from "../base/runtime.ts";
import { addresses, domains } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";

export interface LossNoticesParts {
  store: Pick<Store, "db">;
  runtime: Pick<Runtime, "now">;
  /** Name of this server. */
  hostname: string;
  /** Mails the owners and admins of a workspace. `record` runs in the same transaction, and may run twice. */
  notifyAdmins(notice: { workspaceId: string; subject: string; text: string }, record: (tx: Tx) => void): Promise<void>;
}

/** Time between two looks: a command may verify a domain while the server runs. */
const LOOK_MS = 60_000;
/** Most addresses that the message names. */
const MOST_NAMED = 20;

export function createLossNotices({ store, runtime, hostname, notifyAdmins }: LossNoticesParts) {
  const { db } = store;

  const addressesAt = (domainId: string): string[] =>
    db
      .select({ address: addresses.address })
      .from(addresses)
      .where(eq(addresses.domainId, domainId))
      .orderBy(asc(addresses.address))
      .limit(MOST_NAMED + 1)
      .all()
      .map(({ address }) => address);

  return {
    name: "domain-notices",
    async runDue(): Promise<number> {
      let failure: unknown;
      for (const { id, workspaceId, name, lostAt } of db
        .select()
        .from(domains)
        .where(isNotNull(domains.lostAt))
        .all()) {
        const subject = `${name} was verified by another workspace`;
        const text = textOf({ name, lostAt: lostAt ?? 0, addresses: addressesAt(id), hostname });
        const told = and(eq(domains.id, id), isNotNull(domains.lostAt));
        // A failure in one workspace does not hold up the notices of the others; the job tries it again.
        await notifyAdmins({ workspaceId, subject, text }, (tx) => {
          tx.update(domains).set({ lostAt: null }).where(told).run();
        }).catch((error) => {
          failure ??= error;
        });
      }
      if (failure !== undefined) throw failure;
      return runtime.now() + LOOK_MS;
    },
  };
}

interface Loss {
  name: string;
  lostAt: number;
  addresses: readonly string[];
  hostname: string;
}

/** Each paragraph is one line: the reader's mail program wraps it. */
const textOf = ({ name, lostAt, addresses, hostname }: Loss): string =>
  [
    `On ${new Date(lostAt).toUTCString()} another workspace of this server showed by DNS records, or by the word of whoever runs the server, that ${name} is its domain. Your workspace had added it too and never verified it.`,
    addresses.length === 0
      ? "No mailbox or alias of yours uses it."
      : `From then on no mail comes to your mailboxes for ${listed(addresses)}, and none can be sent from there. The mail that is in them stays, and can be read and exported.`,
    "Whoever signs in with an address of that domain still does.",
    `If the domain is yours, write to whoever runs ${hostname}.`,
  ].join("\n\n");

const listed = (addresses: readonly string[]): string =>
  addresses.length > MOST_NAMED ? `${addresses.slice(0, MOST_NAMED).join(", ")} and others` : addresses.join(", ");
