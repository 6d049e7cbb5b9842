/**
 * APPEND (RFC 9051 §6.3.12): a message is filed as import files it. A message that a mail app sent through this server is there
 * already, and is not filed again; one that waits for approval is filed once it was sent. Drafts are drafts of the app. Octets
 * that were fetched here are recognised as their message. In the mailbox of a label, a message is archived with the label.
 */
import { isUnavailable } from "../../base/errors.ts";
import { letOthersRun } from "../../base/pause.ts";
import type { FilingKind } from "../../mailbox/filing/threading.ts";
import { fileAppended, findSentByMessageId } from "../../mailbox/imap/carrying.ts";
import { BIT_OF, IMAP_FLAGS } from "../../mailbox/imap/uids.ts";
import { findIdInOctets } from "../../mailbox/reading/missing-octets.ts";
import { isOwnAddress, ownAddresses } from "../../mailbox/state/addresses.ts";
import { hasStorageForMessage } from "../../mailbox/state/mailboxes.ts";
import { splitOctets } from "../../message/imap-data.ts";
import { Malformed, OF_PROGRAMS, type Parser } from "../grammar.ts";
import { findImapMailboxByName } from "../mailbox-names.ts";
import { type ImapSession, Refused, readKeywordLabel } from "../session.ts";

export async function runImapAppend(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.space();
  const hasFlags = parser.next("(");
  const flags = hasFlags ? parser.flags() : [];
  if (hasFlags) parser.space();
  const at = parser.next('"') ? parser.dateTime() : undefined;
  if (at !== undefined) parser.space();
  // RFC 6855 §4: a message whose header is in UTF-8, which needs no mark here.
  const isMarked = parser.take("UTF8 (");
  const bytes = parser.octets();
  if (isMarked) parser.expect(")");
  parser.end();
  const { core, folders } = session;
  const caller = session.writer("append");
  const target = findImapMailboxByName(core.db, caller, name);
  if (!target) throw new Refused("No such mailbox", "TRYCREATE");
  const { folder, label, reach } = target;
  if (!reach.access.manage) throw new Refused("Your share of the mailbox lets you read it only", "NOPERM");
  if (bytes.byteLength === 0) throw new Malformed("an empty message");
  if (!hasStorageForMessage(core, { mailboxId: reach.mailbox.id, exempt: false }, bytes.byteLength)) {
    throw new Refused("The mailbox is full", "OVERQUOTA");
  }
  if (await losesNul(bytes)) throw new Refused("NUL is not kept: encode the part in base64", "UNKNOWN-CTE");
  const opened = await folders.opened(reach.mailbox.id, folder, label);
  const message = await core.parser.prepareTransferred(bytes).catch((error) => {
    if (isUnavailable(error)) throw error;
    core.log.warn("a message that was appended cannot be read", { trace: session.trace, error });
    throw new Refused("The message cannot be read", "CANNOT");
  });
  const lower = flags.map((flag) => flag.toLowerCase());
  const kind: FilingKind =
    folder === "sent" ? "sent" : folder === "drafts" || lower.includes("\\draft") ? "draft" : "received";
  if (kind === "draft" && folder !== undefined && folder !== "drafts" && folder !== "trash")
    throw new Refused("Drafts are in Drafts", "CANNOT");
  const mailboxId = reach.mailbox.id;
  const keywords = session.keywordsIn(mailboxId);
  const labels = flags
    .filter((flag) => !flag.startsWith("\\") && !OF_PROGRAMS.test(flag))
    .map((flag) => readKeywordLabel(keywords, flag));
  // Whoever has such mail wrote it, and sees its Bcc.
  const isOwn = isOwnAddress(ownAddresses(core.db, mailboxId), message.from?.email ?? "");
  const digest = await hashOctets(bytes);
  const filed = await core.store.enqueue((tx) => {
    const sent = kind === "sent" ? findSentByMessageId(tx, mailboxId, message.messageId) : undefined;
    if (sent) return sent;
    return fileAppended(core, tx, caller, {
      digest,
      id: findIdInOctets(bytes),
      mailboxId,
      message,
      kind,
      folder: folder ?? (kind === "draft" ? "drafts" : "archive"),
      under: label,
      read: lower.includes("\\seen"),
      starred: lower.includes("\\flagged"),
      labels,
      receivedOn: reach.mailbox.address,
      receivedAt: at ?? core.now(),
      sentBy: kind !== "received" || isOwn ? caller.userId : undefined,
      // In the mailbox of a label, \Deleted is said of the label.
      imapFlags:
        (label === undefined ? ~0 : ~IMAP_FLAGS.deleted) &
        lower.reduce((bits, flag) => bits | (BIT_OF.get(flag) ?? 0), 0),
    });
  });
  // An app that now deletes it where it was moves it; a draft has another UID there.
  if (label !== undefined && kind !== "draft" && "before" in filed && filed.seq !== undefined) {
    for (const one of opened.listHoldingFolders()) {
      const uid = one.folder === filed.before ? one.uidIn(filed.seq) : undefined;
      if (uid !== undefined) session.noteCopied(one, uid);
    }
  }
  await opened.updated();
  // What was sent may have been moved since.
  const uid = filed.seq === undefined ? undefined : opened.uidIn(filed.seq);
  return uid === undefined ? "Filed" : `[APPENDUID ${opened.uidValidity} ${uid}] Filed`;
}

/** True if NUL may be of a part that has it for a reason (RFC 3516 §4.4); elsewhere, it is left out. */
async function losesNul(octets: Uint8Array): Promise<boolean> {
  if (!octets.includes(0)) return false;
  let before = "";
  for (const piece of splitOctets(octets)) {
    const text = before + Buffer.from(piece).toString("latin1");
    if (/^content-transfer-encoding:[ \t]*binary/im.test(text)) return true;
    before = text.slice(-100);
    await letOthersRun();
  }
  return false;
}

/** SHA-256, in pieces that leave the server to others. */
async function hashOctets(octets: Uint8Array): Promise<Uint8Array> {
  const hash = new Bun.CryptoHasher("sha256");
  for (const piece of splitOctets(octets)) {
    hash.update(piece);
    await letOthersRun();
  }
  return hash.digest();
}
