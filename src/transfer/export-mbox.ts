/**
 * Writes a mailbox as an mbox file (mboxrd, LF line ends) of the octets that IMAP serves to the mailbox's owner. Each message gets
 * the marks that other programs read (Status, X-Status, X-Keywords) and X-Mailroom-Export, from which an import makes the same
 * mailbox (marks.ts).
 *
 * Invariant: the file appears whole or not at all, and replaces no other file.
 */
import type { ExportedMessage } from "../mailbox/filing/transfer.ts";
import { IMAP_FLAGS } from "../mailbox/imap/uids.ts";
import type { NewFile } from "../store/named-files.ts";
import { writeExportMark } from "./marks.ts";

/** Size of one write. */
const WRITE_BYTES = 1024 * 1024;

export interface Exported {
  messages: number;
  /** Size of the file. */
  bytes: number;
  /** Ids of messages that are not in it, since their octets, or a file of theirs, are damaged or missing. */
  lost: string[];
}

/** Returns undefined if interrupted; there is no file then. @throws AppError conflict if the file exists; errors of the file system */
export async function exportMail(
  messages: AsyncIterable<ExportedMessage>,
  file: NewFile,
  { isInterrupted, onProgress }: { isInterrupted(): boolean; onProgress(messages: number): void },
): Promise<Exported | undefined> {
  let exported: Exported | undefined;
  try {
    exported = await write(file, messages, isInterrupted, onProgress);
  } catch (error) {
    await file.drop();
    throw error;
  }
  await (exported ? file.keep() : file.drop());
  return exported;
}

async function write(
  file: NewFile,
  messages: AsyncIterable<ExportedMessage>,
  isInterrupted: () => boolean,
  onProgress: (messages: number) => void,
): Promise<Exported | undefined> {
  const written: Exported = { messages: 0, bytes: 0, lost: [] };
  let waiting: Buffer[] = [];
  let size = 0;
  const flush = async () => {
    await file.write(Buffer.concat(waiting));
    written.bytes += size;
    waiting = [];
    size = 0;
  };
  for await (const message of messages) {
    if (isInterrupted()) return undefined;
    if (!message.raw) {
      written.lost.push(message.row.id);
      continue;
    }
    const entry = formatMboxEntry(message, message.raw);
    waiting.push(entry);
    size += entry.byteLength;
    written.messages++;
    if (size < WRITE_BYTES) continue;
    await flush();
    onProgress(written.messages);
  }
  if (size > 0) await flush();
  return written;
}

/** The message with its `From ` line and a final empty line. */
function formatMboxEntry(message: ExportedMessage, raw: Uint8Array): Buffer {
  const text = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString("latin1");
  const marks = listExportMarkLines(message, raw.byteLength)
    .map((line) => `${line}\n`)
    .join("");
  // A message with mixed line ends keeps CRLF, so that an import does not turn its lone LFs into CRLF.
  const isMixed = /(?<!\r)\n|\r(?!\n)/.test(text);
  const lines = isMixed ? marks.replaceAll("\n", "\r\n") + text : (marks + text).replaceAll("\r\n", "\n");
  const end = isMixed ? "\r\n" : "\n";
  const quoted = lines.replace(/(^|\n)(>*From )/g, "$1>$2");
  const entry = `${formatFromLine(message)}${end}${quoted}${quoted.endsWith("\n") ? "" : end}${end}`;
  return Buffer.from(entry, "latin1");
}

/** RFC 4155 appendix A: the time is UTC, as asctime writes it. */
function formatFromLine({ row }: ExportedMessage): string {
  const [weekday, day = "", month, year, time] = new Date(row.filedAt).toUTCString().replace(",", "").split(" ");
  const sender = /^[!-~]+$/.test(row.from.email) ? row.from.email : "MAILER-DAEMON";
  return `From ${sender} ${weekday} ${month} ${day.replace(/^0/, " ")} ${time} ${year}`;
}

function listExportMarkLines(
  { row, kind, ownFolder, thread, labels, sentBy, imapFlags, results }: ExportedMessage,
  octets: number,
): string[] {
  const { folder, starred, snoozedUntil, id: conversation } = thread;
  const { read, filedAt, deliveredAt, receivedOn, fingerprint, size, auth } = row;
  const mark = writeExportMark({
    kind,
    folder,
    starred,
    labels,
    conversation,
    read,
    filedAt,
    fingerprint,
    size,
    ...(ownFolder !== undefined && { ownFolder }),
    ...(starred && !row.flagged && { flagged: false }),
    ...(snoozedUntil !== null && { snoozedUntil }),
    ...(deliveredAt !== null && { deliveredAt }),
    ...(receivedOn !== null && { receivedOn }),
    ...(sentBy !== null && { sentBy }),
    ...(imapFlags !== 0 && { imapFlags }),
    ...(auth !== null && { auth }),
    ...(results !== undefined && { results }),
    octets,
  });
  const flags = `${imapFlags & IMAP_FLAGS.answered ? "A" : ""}${row.flagged ? "F" : ""}${kind === "draft" ? "T" : ""}${(ownFolder ?? folder) === "trash" ? "D" : ""}`;
  const keywords = labels.map((label) => label.replace(/[\s\p{Cc}]+/gu, "_")).filter((label) => /^[!-~]+$/.test(label));
  return [
    `Status: ${read ? "RO" : "O"}`,
    ...(flags === "" ? [] : [`X-Status: ${flags}`]),
    ...(keywords.length === 0 ? [] : [`X-Keywords: ${keywords.join(" ")}`]),
    `X-Mailroom-Export: ${mark}`,
  ];
}
