/**
 * Decides how an imported message is filed: received or sent, folder, read, labels, address. X-Mailroom-Export decides
 * alone; otherwise the message's marks come before the folder that it was in.
 */

import type { TransferredMessage } from "../mailbox/filing/transfer.ts";
import { routeWithin } from "../mailbox/state/addresses.ts";
import { parseAddressList, parseSender } from "../message/address.ts";
import { findHeader, listHeaders } from "../message/headers.ts";
import type { Reader } from "../store/core.ts";
import type { Folder } from "../store/schema.ts";
import type { ExportMark } from "./marks.ts";
import type { Source, Unwrapped } from "./sources.ts";

/** The mailbox to import into. */
export interface Destination {
  mailboxId: string;
  address: string;
  /** The mailbox's address, without a tag, that `email` belongs to; undefined for other people's addresses. */
  ownAddress(email: string): string | undefined;
  ownerId: string | null;
  /** Id of the user with that sign-in name in the mailbox's workspace. */
  findUserId(email: string): string | undefined;
  /** For mail without a known folder. */
  folder: Folder;
  /** Files all mail as read. */
  read: boolean;
}

/** Addresses whose route is remembered. */
const MOST_KNOWN = 10_000;

/** The destination for imports into a mailbox. `users`: those of its workspace. */
export function createImportDestination(
  { db }: Reader,
  {
    id: mailboxId,
    workspaceId,
    address,
    ownerId,
  }: { id: string; workspaceId: string; address: string; ownerId: string | null },
  users: readonly { id: string; email: string }[],
  options: Pick<Destination, "folder" | "read">,
): Destination {
  const ids = new Map(users.map(({ email, id }) => [email, id]));
  // Imported mail repeats a few addresses.
  const known = new Map<string, string | undefined>();
  return {
    mailboxId,
    address,
    ownerId,
    ...options,
    ownAddress(email) {
      if (known.has(email)) return known.get(email);
      const route = routeWithin(db, workspaceId, email);
      const own = route.kind === "mailbox" && route.mailboxId === mailboxId ? route.receivedOn : undefined;
      if (known.size >= MOST_KNOWN) known.clear();
      known.set(email, own);
      return own;
    },
    findUserId: (email) => ids.get(email),
  };
}

export type Placement = Omit<TransferredMessage, "message"> & { exported: ExportMark | undefined };

/** How a message is filed; undefined for one that its source marks as deleted. `now`: epoch ms. */
export function choosePlacement(
  { fields, marks, receivedAt }: Unwrapped,
  source: Pick<Source, "folder" | "sent" | "labels">,
  destination: Destination,
  now: number,
): Placement | undefined {
  if (marks.deleted) return undefined;
  const { mailboxId, address, ownAddress, ownerId } = destination;
  if (marks.exported) return placementOfExported(marks.exported, destination);

  // The message's own marks come before the name of its file.
  const filed = marks.folder === undefined ? source : marks;
  const folder = marks.folder ?? source.folder ?? destination.folder;
  const from = ownAddress(parseSender(findHeader(fields, "from") ?? "")?.email ?? "");
  // Where others' mail arrives, From may be forged.
  const hasArrived = (folder === "inbox" || folder === "spam") && findHeader(fields, "received") !== undefined;
  const isFromUs = from !== undefined && !hasArrived;
  const isSent = marks.sent === true || filed.sent === true || folder === "sent" || isFromUs;
  const kind = folder === "drafts" ? "draft" : isSent ? "sent" : "received";
  return {
    mailboxId,
    kind,
    // A sent message without a known folder goes to sent mail.
    folder: kind === "sent" && marks.folder === undefined && source.folder === undefined ? "sent" : folder,
    read: destination.read || marks.read !== false,
    starred: marks.starred === true,
    imapFlags: marks.imapFlags,
    labels: [...new Set([...marks.labels, ...(marks.folder === undefined ? source.labels : [])])],
    receivedOn: kind === "received" ? arrivedOn(fields, destination) : (from ?? address),
    receivedAt: receivedAt ?? now,
    sentBy: kind === "received" ? undefined : (ownerId ?? undefined),
    exported: undefined,
  };
}

function placementOfExported(
  mark: ExportMark,
  { mailboxId, address, ownAddress, findUserId, read }: Destination,
): Placement {
  const { receivedOn, sentBy } = mark;
  return {
    mailboxId,
    kind: mark.kind,
    folder: mark.folder,
    ownFolder: mark.ownFolder,
    starred: mark.flagged ?? mark.starred,
    labels: mark.labels,
    imapFlags: mark.imapFlags,
    auth: mark.auth,
    conversation: mark.conversation,
    snoozedUntil: mark.snoozedUntil,
    deliveredAt: mark.deliveredAt,
    read: read || mark.read,
    receivedOn: (receivedOn === undefined ? undefined : ownAddress(receivedOn)) ?? address,
    receivedAt: mark.filedAt,
    sentBy: sentBy === undefined ? undefined : findUserId(sentBy),
    exported: mark,
  };
}

/** The mailbox's address that received it: as delivered, else as addressed, else the mailbox's first. */
function arrivedOn(fields: Unwrapped["fields"], { address, ownAddress }: Destination): string {
  for (const name of ["delivered-to", "x-original-to", "envelope-to", "to", "cc"]) {
    for (const { email } of parseAddressList(listHeaders(fields, name).join(", "))) {
      const own = ownAddress(email);
      if (own !== undefined) return own;
    }
  }
  return address;
}
