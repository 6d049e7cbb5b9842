/** Formats names of people, sizes of files, and counts. */
import type { ThreadView } from "./mail-views.ts";

interface Address {
  email: string;
  name?: string;
}

/** The name, or else the local part of the address. */
export const addressDisplayName = ({ name, email }: Address): string => name?.trim() || email.split("@")[0] || email;

/** Writes an address as a header does; a name with special characters is quoted (RFC 5322 §3.2.4). */
export function formatHeaderAddress({ name, email }: Address): string {
  if (!name) return email;
  const plain = /^[\p{L}\p{N} '-]+$/u.test(name);
  return `${plain ? name : `"${name.replace(/["\\]/g, "\\$&")}"`} <${email}>`;
}

export const formatAddressNames = (addresses: readonly Address[]): string =>
  addresses.map(addressDisplayName).join(", ");

export const addressInitials = (address: Address): string => {
  const [first = "", ...rest] = addressDisplayName(address)
    .split(/[\s._-]+/)
    .filter(Boolean);
  const last = rest.at(-1) ?? "";
  return `${[...first][0] ?? "?"}${[...last][0] ?? ""}`.toUpperCase();
};

/** The other party of a conversation, for a list: of one that was only sent, everybody it went to. */
export function formatOtherParty(thread: ThreadView): string {
  if (thread.folder !== "sent" && thread.folder !== "drafts") return addressDisplayName(thread.from);
  const others = thread.participants.filter(({ email }) => email !== thread.mailbox && email !== thread.receivedOn);
  return `To ${formatAddressNames(others.length > 0 ? others : [thread.from])}`;
}

/** The recipients of a draft, for a list. */
export const formatDraftRecipients = ({ to, cc }: { to: readonly Address[]; cc: readonly Address[] }): string =>
  to.length + cc.length === 0 ? "No recipients yet" : `To ${formatAddressNames([...to, ...cc])}`;

export function formatByteSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1_000)} kB`;
  if (bytes < 1_000_000_000) return `${(bytes / 1_000_000).toFixed(1)} MB`;
  return `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

/** "1 alias", "2 aliases". */
export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString()} ${count === 1 ? one : many}`;
