/**
 * The field X-Mailroom-Export: what a mailbox knows of a message besides what the message says, as JSON, so that an
 * export that is imported gives the same mailbox.
 */
import { type AuthVerdicts, FOLDERS, type Folder } from "../store/schema.ts";

export interface ExportMark {
  kind: "received" | "sent" | "draft" | "notice";
  /** Of its conversation, as are the next three. */
  folder: Folder;
  starred: boolean;
  labels: string[];
  /** threads.id: the messages of a conversation stay together. */
  conversation: string;
  snoozedUntil?: number;
  read: boolean;
  /** Epoch ms, as are all times here. */
  filedAt: number;
  deliveredAt?: number;
  receivedOn?: string;
  /** Sign-in name of the user. */
  sentBy?: string;
  fingerprint: string;
  /** Bytes as received. */
  size: number;
  auth?: AuthVerdicts;
  /** Value of Authentication-Results. */
  results?: string;
}

/** In ASCII, on one line. */
export const writeExportMark = (mark: ExportMark): string =>
  JSON.stringify(mark).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const KINDS = ["received", "sent", "draft", "notice"] as const;

/** Undefined for what this version did not write. */
export function readExportMark(text: string): ExportMark | undefined {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { kind, folder, starred, labels, conversation, read, filedAt, fingerprint, size } = value;
  const isWhole =
    KINDS.includes(kind as never) &&
    FOLDERS.includes(folder as never) &&
    Array.isArray(labels) &&
    labels.every((label) => typeof label === "string") &&
    typeof conversation === "string" &&
    /^thr_[0-9a-z]{1,40}$/.test(conversation) &&
    typeof fingerprint === "string" &&
    /^[0-9a-f]{64}$/.test(fingerprint) &&
    [starred, read].every((flag) => typeof flag === "boolean") &&
    [filedAt, size].every(Number.isSafeInteger) &&
    [value.snoozedUntil, value.deliveredAt].every((time) => time === undefined || Number.isSafeInteger(time)) &&
    [value.receivedOn, value.sentBy, value.results].every((text) => text === undefined || typeof text === "string") &&
    (value.auth === undefined || isVerdicts(value.auth));
  return isWhole && (size as number) >= 0 ? (value as unknown as ExportMark) : undefined;
}

function isVerdicts(value: unknown): value is AuthVerdicts {
  if (typeof value !== "object" || value === null) return false;
  const { spf, dkim, dmarc } = value as Record<string, unknown>;
  return [spf, dkim, dmarc].every((verdict) => typeof verdict === "string" && /^[a-z]{1,20}$/.test(verdict));
}
