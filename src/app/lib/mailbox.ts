/** Chooses the mailbox to show: the one in the URL, else the person's own, else the first. */
import type { MailboxView } from "./api.ts";

export const chosenMailbox = (mailboxes: readonly MailboxView[], asked: string | undefined): MailboxView | undefined =>
  mailboxes.find(({ id }) => id === asked) ?? mailboxes.find(({ source }) => source === "owner") ?? mailboxes[0];
