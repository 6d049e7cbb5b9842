/** A message of a conversation: who wrote it to whom, its body, what is attached. Older ones are folded. */
import { Download, FileText, ImageOff, ShieldAlert } from "lucide-react";
import { useState } from "react";
import { downloadOf, type MessageView, previewOf } from "../lib/api.ts";
import { fullNameOf, nameOf, namesOf, sizeOf } from "../lib/people.ts";
import { fullTime, shortTime } from "../lib/time.ts";
import { Avatar } from "./avatar.tsx";
import { Button } from "./button.tsx";
import { MessageFrame } from "./message-frame.tsx";

export function MessageCard({
  message,
  folder,
  open: initial,
}: {
  message: MessageView;
  folder: string;
  open: boolean;
}) {
  const [open, setOpen] = useState(initial);
  const [blocked, setBlocked] = useState(false);
  const [images, setImages] = useState(false);
  const { from, date, text, auth, direction, attachments } = message;
  const bodyId = `body-${message.id}`;

  return (
    <article aria-label={`Message of ${nameOf(from)}`} className="rounded-xl border border-line bg-raised">
      <header className="relative flex items-start gap-3 px-4 py-3">
        <Avatar of={from} />
        <div className="min-w-0 grow">
          <p className="flex items-baseline gap-2">
            <button
              type="button"
              aria-expanded={open}
              aria-controls={bodyId}
              onClick={() => setOpen(!open)}
              className="min-w-0 truncate font-semibold after:absolute after:inset-0 after:rounded-xl"
            >
              {nameOf(from)}
            </button>
            <span className="min-w-0 truncate text-sm text-muted max-sm:hidden">{from.email}</span>
            <time dateTime={date} title={fullTime(date)} className="ml-auto shrink-0 text-xs text-muted tabular-nums">
              {shortTime(date)}
            </time>
          </p>
          {open ? (
            <Recipients message={message} />
          ) : (
            <p className="truncate text-sm text-muted">{text.slice(0, 200)}</p>
          )}
        </div>
      </header>
      {open && (
        <div id={bodyId} className="px-4 pb-4">
          {direction === "inbound" && auth?.dmarc === "fail" && (
            <Banner icon={ShieldAlert}>
              It could not be shown that this message comes from {from.email.split("@")[1]}: be careful with what it
              asks for.
            </Banner>
          )}
          {folder === "spam" && <Banner icon={ShieldAlert}>This conversation is in spam.</Banner>}
          {blocked && !images && (
            <Banner icon={ImageOff}>
              <span className="grow">Images are not loaded, so that the sender does not learn that you read this.</span>
              <Button onClick={() => setImages(true)}>Show images</Button>
            </Banner>
          )}
          <MessageFrame
            messageId={message.id}
            images={images}
            title={`Text of the message of ${nameOf(from)}`}
            onBlocked={() => setBlocked(true)}
          />
          <Attachments attachments={attachments.filter(({ inline }) => !inline)} />
        </div>
      )}
    </article>
  );
}

function Recipients({ message: { to, cc, bcc = [] } }: { message: MessageView }) {
  const rows = [
    ["To", to],
    ["Cc", cc],
    ["Bcc", bcc],
  ] as const;
  return (
    <p className="text-sm text-muted">
      {rows
        .filter(([, people]) => people.length > 0)
        .map(([field, people]) => (
          <span key={field} className="mr-3" title={people.map(fullNameOf).join(", ")}>
            {field} <span className="text-soft">{namesOf(people)}</span>
          </span>
        ))}
    </p>
  );
}

function Banner({ icon: Icon, children }: { icon: typeof ShieldAlert; children: React.ReactNode }) {
  return (
    <div className="mb-3 flex items-center gap-2.5 rounded-lg bg-notice px-3 py-2 text-sm">
      <Icon size={16} className="shrink-0" aria-hidden />
      {children}
    </div>
  );
}

function Attachments({ attachments }: { attachments: MessageView["attachments"] }) {
  if (attachments.length === 0) return null;
  return (
    <ul aria-label="Attachments" className="mt-4 flex flex-wrap gap-2">
      {attachments.map(({ id, filename, size, contentType }) => (
        <li key={id} className="flex max-w-full items-center gap-1 rounded-lg border border-line bg-panel text-sm">
          <a
            href={previewOf(id)}
            target="_blank"
            rel="noopener"
            className="flex min-w-0 items-center gap-2 rounded-lg py-2 pl-3 hover:underline"
            title={contentType}
          >
            <FileText size={15} className="shrink-0 text-muted" aria-hidden />
            <span className="min-w-0 truncate">{filename}</span>
            <span className="shrink-0 text-xs text-muted">{sizeOf(size)}</span>
          </a>
          <a
            href={downloadOf(id)}
            download={filename}
            aria-label={`Download ${filename}`}
            className="grid size-8 shrink-0 place-items-center rounded-md text-muted hover:bg-hover hover:text-ink"
          >
            <Download size={15} aria-hidden />
          </a>
        </li>
      ))}
    </ul>
  );
}
