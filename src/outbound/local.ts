/**
 * Delivers mail to mailboxes of this server (rules: Local delivery): it is filed like other mail, without leaving.
 *
 * Invariant: a mailbox gets one copy of a message, whichever recipients reach it, and the copy names those of them who
 * were Bcc'd, and no other Bcc recipient (rules: Arrival, Bcc).
 */

import type { Runtime } from "../base/runtime.ts";
import type { Filing } from "../mailbox/filing.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { EmailAddress } from "../message/address.ts";
import { type DeliveryResult, deliveryResultOf } from "../smtp/delivery-result.ts";
import { Refusal, type RefusalName } from "../smtp/refusal.ts";
import type { Db, Tx } from "../store/store.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import type { Claim } from "./claims.ts";
import { entriesOf } from "./outbound.ts";

export interface LocalDelivery {
  /** Whether mail of a workspace to the domain (A-labels) stays here: it is verified, or the workspace's own claim. */
  isLocal(workspaceId: string, domain: string): boolean;
  /**
   * Decides for every entry of the claim, in order; `file` then files what was accepted, in the transaction that records
   * the results, and throws when they do not hold any more.
   * @throws AppError server_error 503 when the message cannot be prepared for now
   */
  deliver(claim: Claim, content: Uint8Array): Promise<{ results: DeliveryResult[]; file(tx: Tx): void }>;
}

export interface LocalDeliveryParts {
  db: Db;
  mailbox: Pick<Mailbox, "isLocal" | "routeFor" | "usage" | "file">;
  parser: Pick<ParserPool, "prepare">;
  runtime: Pick<Runtime, "now">;
}

/** The destination of a recipient at this server: a mailbox, or a refusal. */
type Destination = { mailboxId: string; receivedOn: string } | { refusal: RefusalName };

export function createLocalDelivery({ db, mailbox, parser, runtime }: LocalDeliveryParts): LocalDelivery {
  function destinationOf(workspaceId: string, recipient: string, size: number): Destination {
    const route = mailbox.routeFor(workspaceId, recipient);
    if (route.kind !== "mailbox") return { refusal: "unknownRecipient" };
    const { bytes, quotaBytes } = mailbox.usage(route.mailboxId);
    if (!route.exempt && bytes + size > quotaBytes) return { refusal: "mailboxFull" };
    return { mailboxId: route.mailboxId, receivedOn: route.receivedOn };
  }

  /** The Bcc recipients of a message by mailbox. Reads all entries, since another entry may have filed the copy. */
  function bccByMailbox({ seq, workspaceId }: Claim["message"]): Map<string, EmailAddress[]> {
    const found = new Map<string, EmailAddress[]>();
    for (const { field, recipient, name } of entriesOf(db, seq)) {
      if (field !== "bcc") continue;
      const route = mailbox.routeFor(workspaceId, recipient);
      if (route.kind !== "mailbox") continue;
      const address = { email: recipient, ...(name === null ? {} : { name }) };
      found.set(route.mailboxId, [...(found.get(route.mailboxId) ?? []), address]);
    }
    return found;
  }

  async function deliver({ message, entries }: Claim, content: Uint8Array) {
    const prepared = await parser.prepare({ kind: "interactive", source: message.mailboxId }, content);
    const decide = () => entries.map(({ recipient }) => destinationOf(message.workspaceId, recipient, prepared.size));
    const decided = decide();

    function file(tx: Tx): void {
      const now = decide();
      if (JSON.stringify(now) !== JSON.stringify(decided))
        throw new Error("recipients changed while mail was prepared");
      const copies = new Map<string, Pick<Filing, "mailboxId" | "receivedOn">>();
      for (const destination of now) {
        if ("refusal" in destination || copies.has(destination.mailboxId)) continue;
        copies.set(destination.mailboxId, destination);
      }
      const bcc = bccByMailbox(message);
      for (const copy of copies.values()) {
        mailbox.file(tx, { ...copy, message: prepared, bcc: bcc.get(copy.mailboxId) ?? [], now: runtime.now() });
      }
    }

    return { results: decided.map(resultOn), file };
  }

  return { isLocal: mailbox.isLocal, deliver };
}

function resultOn(destination: Destination): DeliveryResult {
  if ("mailboxId" in destination)
    return deliveryResultOf({ command: "data", code: 250, text: "250 2.1.5 Delivered here" });
  const { responseCode, message } = new Refusal(destination.refusal);
  return deliveryResultOf({ command: "rcpt", code: responseCode, text: `${responseCode} ${message}` });
}
