/** A message of a conversation: sender, recipients, details, body and attachments. Older ones are folded. */
import { Code, Download, EllipsisVertical, Forward, ImageOff, ShieldAlert } from "lucide-react";
import { useState } from "react";
import { type MessageView, originalOf } from "../lib/api.ts";
import { forwardMessage } from "../lib/compose.ts";
import { fullNameOf, nameOf, namesOf } from "../lib/people.ts";
import { fullTime, shortTime } from "../lib/time.ts";
import { Attachments } from "./attachments.tsx";
import { Avatar } from "./avatar.tsx";
import { Button, IconButton } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Menu } from "./menu.tsx";
import { MenuItem } from "./menu-item.tsx";
import { Authentication, Original, Progress, WhySpam } from "./message-details.tsx";
import { MessageFrame } from "./message-frame.tsx";

export function MessageCard({
  message,
  folder,
  open: initial,
  isSpread,
}: {
  message: MessageView;
  folder: string;
  open: boolean;
  /** True: all messages are open, for printing. */
  isSpread: boolean;
}) {
  const [kept, setOpen] = useState(initial);
  const [blocked, setBlocked] = useState(false);
  const [images, setImages] = useState(false);
  const [source, setSource] = useState(false);
  const { from, date, text, direction, attachments } = message;
  const open = kept || isSpread;
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
        {open && (
          <div className="relative z-10 -my-1 -mr-2 print:hidden">
            <Menu trigger={<IconButton icon={EllipsisVertical} label={`More about the message of ${nameOf(from)}`} />}>
              <MenuItem onSelect={() => void forwardMessage(message.id)}>
                <Forward size={15} aria-hidden /> Forward
              </MenuItem>
              <MenuItem onSelect={() => setSource(true)}>
                <Code size={15} aria-hidden /> Show original
              </MenuItem>
              <MenuItem onSelect={() => window.location.assign(originalOf(message.id))}>
                <Download size={15} aria-hidden /> Download original
              </MenuItem>
            </Menu>
          </div>
        )}
      </header>
      {open && (
        <div id={bodyId} className="px-4 pb-4">
          {direction === "inbound" && <Authentication message={message} />}
          {direction === "outbound" && <Progress message={message} />}
          {folder === "spam" && direction === "inbound" && (
            <Banner icon={ShieldAlert}>
              <details className="grow">
                <summary className="w-fit font-medium">Why is this in spam?</summary>
                <div className="mt-1.5">
                  <WhySpam message={message} />
                </div>
              </details>
            </Banner>
          )}
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
      <Dialog open={source} close={() => setSource(false)} title="Original message" wide>
        <Original message={message} />
      </Dialog>
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
    <div className="mb-3 flex items-start gap-2.5 rounded-lg bg-notice px-3 py-2 text-sm print:hidden">
      <Icon size={16} className="mt-0.5 shrink-0" aria-hidden />
      {children}
    </div>
  );
}
