/**
 * The one message to the owners and admins of a workspace whose claim to a domain was lost: another workspace has verified
 * it. That it is owed is written with the loss, and that it was sent with the message, so it is sent once whatever happens
 * between.
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
  /** Tells the owners and admins of a workspace; `record` is of the same transaction, and may run twice. */
  notifyAdmins(notice: { workspaceId: string; subject: string; text: string }, record: (tx: Tx) => void): Promise<void>;
}

/** A command may have verified it beside the server. */
const LOOK_MS = 60_000;
/** Addresses named in the message. */
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
        // What fails in one workspace keeps no other's owners waiting; it is tried again.
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

/** Paragraphs are one line each: who reads it knows the width. */
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
