/** The window in which a new message is written, over whatever is shown. */
import { useSearch } from "@tanstack/react-router";
import { X } from "lucide-react";
import { api, type MailboxView } from "../lib/api.ts";
import { closeMessage, useNewMessage } from "../lib/compose.ts";
import { chosenMailbox } from "../lib/mailbox.ts";
import { refreshMail } from "../lib/queries.ts";
import { toast } from "../lib/toast.ts";
import { IconButton } from "./button.tsx";
import { Composer, type Written } from "./composer.tsx";

export function NewMessageWindow({ mailboxes }: { mailboxes: readonly MailboxView[] }) {
  const message = useNewMessage();
  const { mailbox: asked } = useSearch({ strict: false });
  if (!message) return null;
  const senders = mailboxes.filter(({ access }) => access.send).map(({ address }) => address);
  const shown = message.from ?? chosenMailbox(mailboxes, asked)?.address;
  const from = senders.find((sender) => sender === shown) ?? senders[0] ?? "";

  async function send({ from, to, cc, bcc, subject, text }: Written): Promise<void> {
    await api.send({ from, to, cc, bcc, subject, text });
    closeMessage();
    toast({ text: "Sent" });
    refreshMail();
  }

  return (
    <section
      aria-label="New message"
      className="fixed right-5 bottom-0 z-30 flex h-[min(34rem,85vh)] w-[min(36rem,92vw)] flex-col rounded-t-xl border border-line bg-raised shadow-2xl max-md:inset-0 max-md:h-full max-md:w-full max-md:rounded-none"
    >
      <header className="flex items-center justify-between border-b border-line py-1 pr-1.5 pl-4">
        <h2 className="text-sm font-semibold">New message</h2>
        <IconButton icon={X} label="Close and discard" onClick={closeMessage} />
      </header>
      <Composer
        senders={senders}
        initial={{ from, to: "", cc: "", bcc: "", subject: "", text: "" }}
        asksSubject
        send={send}
        discard={closeMessage}
      />
    </section>
  );
}
