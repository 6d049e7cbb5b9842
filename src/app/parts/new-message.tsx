/** The window over the page for a new message or a draft. Closing it keeps the draft. */
import { useSearch } from "@tanstack/react-router";
import { X } from "lucide-react";
import type { MailboxView } from "../lib/api.ts";
import { closeMessage, useComposing } from "../lib/compose.ts";
import { chosenMailbox } from "../lib/mailbox.ts";
import { tellSent } from "../lib/sent.ts";
import { blank, sendersOf } from "../lib/writing.ts";
import { IconButton } from "./button.tsx";
import { Composer } from "./composer.tsx";
import { DraftEditor } from "./draft-box.tsx";

export function NewMessageWindow({ mailboxes }: { mailboxes: readonly MailboxView[] }) {
  const composing = useComposing();
  const { mailbox: asked } = useSearch({ strict: false });
  if (!composing) return null;
  const senders = sendersOf(mailboxes);
  const shown = (composing.kind === "new" && composing.from) || chosenMailbox(mailboxes, asked)?.address;
  const from = senders.find((sender) => sender === shown) ?? senders[0] ?? "";
  const name = composing.kind === "new" ? "New message" : "Draft";

  return (
    <section
      aria-label={name}
      className="fixed right-5 bottom-0 z-30 flex h-[min(38rem,88vh)] w-[min(40rem,92vw)] flex-col rounded-t-xl border border-line bg-raised shadow-2xl max-md:inset-0 max-md:h-full max-md:w-full max-md:rounded-none"
    >
      <header className="flex items-center justify-between border-b border-line py-1 pr-1.5 pl-4">
        <h2 className="text-sm font-semibold">{name}</h2>
        <IconButton icon={X} label="Save and close" onClick={closeMessage} />
      </header>
      {composing.kind === "draft" ? (
        <DraftEditor key={composing.key} draftId={composing.draftId} fresh={composing.fresh} left={closeMessage} />
      ) : (
        <Composer
          key={composing.key}
          start={composing.kind === "new" ? blank(from) : composing.start}
          senders={composing.kind === "new" ? senders : [...new Set([composing.start.fields.from, ...senders])]}
          asksSubject
          sent={(outcome) => {
            closeMessage();
            tellSent(outcome);
          }}
          discarded={closeMessage}
        />
      )}
    </section>
  );
}
