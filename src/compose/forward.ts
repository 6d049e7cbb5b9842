/**
 * Forwarding: a draft with all of a message in it, its header block, text, HTML and attachments, for somebody to say to
 * whom. What is too large to stand in the text goes along as a file.
 */
import { type Caller, reachOf } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { DraftFile } from "../mailbox/drafts.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { MessageView } from "../mailbox/views.ts";
import { type ForwardedMessage, forwardedText, forwardSubject } from "../message/letter.ts";
import { withoutBcc } from "../message/original.ts";
import type { Store } from "../store/store.ts";
import type { SavedDraft } from "./draft-views.ts";
import type { DraftWriting } from "./draft-writing.ts";

export interface Forwarding {
  /** Begins a draft. @throws AppError not_found, forbidden (no mailbox to send from), unprocessable (no room) */
  forward(caller: Caller, messageId: string): Promise<SavedDraft>;
}

export interface ForwardingParts {
  store: Pick<Store, "db" | "blobs">;
  mailbox: Pick<Mailbox, "getMessage" | "getRawMessage" | "filesOf" | "renewHtml" | "forwardHtml">;
  writing: Pick<DraftWriting, "keep">;
}

/** Bytes of text and HTML that stand in the draft; room for some words is left below the limit of a message. */
const LARGEST_INLINE = 900_000;

export function createForwarding({ store, mailbox, writing }: ForwardingParts): Forwarding {
  /** Where the message lies, if they may send from there; else a mailbox of theirs. @throws AppError forbidden */
  function addressFor(caller: Caller, mailboxId: string): string {
    const reached = [...reachOf(store.db, caller).values()].filter(({ access }) => access.send);
    const chosen =
      reached.find(({ mailbox: { id } }) => id === mailboxId) ??
      reached.find(({ source }) => source === "owner") ??
      reached[0];
    if (!chosen) throw new AppError("forbidden", "You have no mailbox to send from");
    return chosen.mailbox.address;
  }

  async function whole(caller: Caller, message: MessageView): Promise<DraftFile> {
    // Who sent it sees its Bcc; whom it is forwarded to is not to (rules: Bcc).
    const bytes = withoutBcc(await mailbox.getRawMessage(caller, message.id));
    const blob = await store.blobs.write(bytes);
    const size = bytes.byteLength;
    return { filename: "forwarded.eml", contentType: "message/rfc822", size, inline: false, contentId: null, blob };
  }

  return {
    async forward(caller, messageId) {
      await mailbox.renewHtml(messageId);
      const message = mailbox.getMessage(caller, messageId, { html: true });
      const from = addressFor(caller, message.mailboxId);
      const { to, cc, subject, html } = message;
      const date = Date.parse(message.date);
      const forwarded: ForwardedMessage = { from: message.from, to, cc, subject, date, text: message.text, html };
      const text = forwardedText(forwarded);
      const rich = html === undefined ? undefined : await mailbox.forwardHtml(caller, forwarded);
      const envelope = { from, to: "", subject: forwardSubject(subject) };
      const files = mailbox.filesOf(caller, messageId);
      if (rich !== undefined && Buffer.byteLength(rich) <= LARGEST_INLINE) {
        return writing.keep(caller, { ...envelope, html: rich }, { files });
      }
      if (rich === undefined && Buffer.byteLength(text) <= LARGEST_INLINE) {
        return writing.keep(caller, { ...envelope, text }, { files });
      }
      return writing.keep(caller, { ...envelope, text: "" }, { files: [await whole(caller, message)] });
    },
  };
}
