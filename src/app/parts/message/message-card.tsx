/** A message of a conversation: sender, recipients, details, body and attachments. Older ones are folded. */

import { useQuery } from "@tanstack/react-query";
import { Code, Download, EllipsisVertical, FolderInput, Forward, ImageOff, ShieldAlert } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { BLOCKED_ATTRIBUTE, FRAME_SANDBOX } from "../../../base/frames.ts";
import { api, urlTo } from "../../lib/api-client.ts";
import { fitMessageWidth } from "../../lib/fit.ts";
import { addressDisplayName, formatAddressNames, formatHeaderAddress } from "../../lib/format.ts";
import { lazyPart } from "../../lib/lazy-part.tsx";
import type { MessageView, Received } from "../../lib/mail-views.ts";
import { forwardMessage } from "../../lib/open-composers.ts";
import { messageQuery, receivedDetailsQuery, useChange } from "../../lib/queries.ts";
import { useServerAway, waitUntilServerAnswers } from "../../lib/server-away.ts";
import { fullTime, shortTime } from "../../lib/time-format.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Avatar } from "../ui/graphics.tsx";
import { Menu } from "../ui/menus.tsx";
import { Attachments } from "./attachments.tsx";
import { Authentication, Progress, Warnings } from "./message-details.tsx";

export const hasCalendar = ({ attachments, direction }: MessageView): boolean =>
  direction === "inbound" &&
  attachments.some(({ contentType }) => /^(?:text\/calendar|application\/ics)\b/i.test(contentType));

const Invitation = lazyPart("the invitation", async () => (await import("./invitation-card.tsx")).Invitation);
const Original = lazyPart("the original", async () => (await import("./message-asked.tsx")).Original);
const WhySpam = lazyPart("the reasons", async () => (await import("./message-asked.tsx")).WhySpam);
const Unsubscribe = lazyPart("this part", async () => (await import("./leave-list.tsx")).Unsubscribe);

/** Opens or closes a message, each time that it is another object. */
export interface Telling {
  open: boolean;
}

const NONE: readonly string[] = [];

export function MessageCard({
  message: given,
  folder,
  open: initial,
  isSpread,
  telling,
  laterInvitations = NONE,
}: {
  message: MessageView;
  folder: string;
  open: boolean;
  /** True: all messages are open, for printing. */
  isSpread: boolean;
  telling?: Telling;
  /** Ids of later messages of the conversation with a calendar file. */
  laterInvitations?: readonly string[];
}) {
  const [isOpened, setOpen] = useState(initial);
  useEffect(() => {
    if (telling) setOpen(telling.open);
  }, [telling]);
  const [source, setSource] = useState(false);
  const open = isOpened || isSpread;
  // In a conversation too large to be given whole, recipients and attachments may be missing.
  const whole = useQuery({ ...messageQuery(given.id), enabled: isOpened && given.truncated === true });
  const message = whole.data ?? given;
  const { from, date, text, direction, attachments } = message;
  const isInbound = direction === "inbound";
  const { data: received } = useQuery({
    ...receivedDetailsQuery(given.id),
    enabled: open && isInbound && folder !== "spam",
  });
  const inSpam = (received?.apartIn ?? folder) === "spam";
  const hideImages = useChange(() => api.setImagesOfSender({ id: given.id, always: false }), {
    key: ["received"],
    success: `Images of ${from.email} are no longer shown by themselves`,
  });
  const bodyId = `body-${message.id}`;

  return (
    <article
      aria-label={`Message of ${addressDisplayName(from)}`}
      tabIndex={-1}
      className="rounded-xl border border-line bg-raised"
    >
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
              <bdi>{addressDisplayName(from)}</bdi>
            </button>
            <span className="min-w-0 truncate text-sm text-muted max-sm:hidden">{from.email}</span>
            <time dateTime={date} title={fullTime(date)} className="ml-auto shrink-0 text-xs text-muted tabular-nums">
              {shortTime(date)}
            </time>
          </p>
          {open ? (
            <Recipients message={message} />
          ) : (
            <p dir="auto" className="truncate text-sm text-muted">
              {text.slice(0, 200)}
            </p>
          )}
        </div>
        {open && (
          <div className="relative z-10 -my-1 -mr-2 print:hidden">
            <Menu
              trigger={
                <IconButton icon={EllipsisVertical} label={`More about the message of ${addressDisplayName(from)}`} />
              }
              items={[
                { label: "Forward", icon: Forward, run: () => void forwardMessage(message.id) },
                { label: "Show original", icon: Code, run: () => setSource(true) },
                {
                  label: "Download original",
                  icon: Download,
                  run: () => window.location.assign(urlTo("downloadOriginal", { id: message.id })),
                },
                ...(received?.images === "always"
                  ? [{ label: "Stop showing images of this sender", icon: ImageOff, run: () => hideImages.mutate() }]
                  : []),
              ]}
            />
          </div>
        )}
      </header>
      {open && (
        <div id={bodyId} className="px-4 pb-4">
          {isInbound && <Authentication message={message} />}
          {isInbound && <Warnings message={message} />}
          {direction === "outbound" && <Progress message={message} />}
          {received?.unsubscribe && <Unsubscribe message={message} way={received.unsubscribe} />}
          {received?.apartIn && (
            <Banner icon={FolderInput}>
              <span className="grow">
                A mail app moved this message alone to {received.apartIn === "spam" ? "Spam" : "Trash"}.
              </span>
            </Banner>
          )}
          {inSpam && isInbound && (
            <Banner icon={ShieldAlert}>
              <details className="grow">
                <summary className="w-fit font-medium">Why is this in spam?</summary>
                <div className="mt-1.5">
                  <WhySpam message={message} />
                </div>
                <p className="mt-1.5">Its links do not open as long as it is here.</p>
              </details>
            </Banner>
          )}
          {!inSpam && hasCalendar(message) && <Invitation messageId={message.id} later={laterInvitations} />}
          <MessageBody
            // The document of a message in spam is another one, as is that of a sender whose images are shown.
            key={`${inSpam} ${received?.images === "always"}`}
            message={message}
            images={received?.images}
            attachments={attachments.filter(({ inline }) => !inline)}
          />
        </div>
      )}
      <Dialog open={source} close={() => setSource(false)} title="Original message" wide>
        <Original message={message} />
      </Dialog>
    </article>
  );
}

/** Text and attachments. Remote images wait until the person asks for them. */
export function MessageBody({
  message: { id, from, text },
  images: shown = "asked",
  attachments,
}: {
  message: Pick<MessageView, "id" | "from" | "text">;
  images?: Received["images"] | undefined;
  /** The ones to list. */
  attachments: MessageView["attachments"];
}) {
  const [blocked, setBlocked] = useState(false);
  const [images, setImages] = useState(false);
  const always = useChange(() => api.setImagesOfSender({ id, always: true }), {
    key: ["received"],
    success: `Images of ${from.email} are always shown, as long as the sender is proven`,
  });
  return (
    <>
      {blocked && !images && (
        <Banner icon={ImageOff}>
          <span className="grow">Images are not loaded, so that the sender does not learn that you read this.</span>
          <span className="flex flex-wrap justify-end gap-2">
            {shown === "offered" && (
              <Button disabled={always.isPending} onClick={() => always.mutate()}>
                Always from this sender
              </Button>
            )}
            <Button onClick={() => setImages(true)}>Show images</Button>
          </span>
        </Banner>
      )}
      <MessageFrame
        messageId={id}
        text={text}
        images={images}
        title={`Text of the message of ${addressDisplayName(from)}`}
        onBlocked={() => setBlocked(true)}
      />
      <Attachments attachments={attachments} />
    </>
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
          <span key={field} className="mr-3" title={people.map(formatHeaderAddress).join(", ")}>
            {field} <span className="text-soft">{formatAddressNames(people)}</span>
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

/**
 * The message's body in its sandboxed frame (src/http/frame-responses.ts). The app sets the frame's height to its content,
 * handles shortcuts pressed in it, and loads remote images only on request.
 */
function MessageFrame({
  messageId,
  text,
  images,
  title,
  onBlocked,
}: {
  messageId: string;
  /** Shown while the server does not answer. */
  text: string;
  images: boolean;
  title: string;
  /** Called when images are not shown. */
  onBlocked: () => void;
}) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(80);
  const [loads, setLoads] = useState(0);
  const [isShown, setShown] = useState(false);
  const away = useServerAway();
  const [isSmaller, setSmaller] = useState(false);
  const [isFitted, setFitted] = useState(true);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each load gives another document
  useEffect(() => {
    if (loads === 0) return;
    const inner = frame.current?.contentDocument;
    const main = inner?.querySelector("main");
    setShown(Boolean(main));
    if (!inner || !main) return void waitUntilServerAnswers();
    if (inner.querySelector(`img[${BLOCKED_ATTRIBUTE}]`)) onBlocked();
    const { body } = inner;
    const measure = () => {
      if (isFitted) setSmaller(fitMessageWidth(main));
      else main.style.zoom = "";
      setHeight(Math.ceil(body.getBoundingClientRect().height) + 2);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(body);
    measure();
    const pressed = (event: KeyboardEvent) => {
      const { key, repeat, ctrlKey, metaKey, altKey, shiftKey, target } = event;
      // Links and folded quotations keep the keys that activate them.
      if ((key === "Enter" || key === " ") && (target as Element).closest("a, summary")) return;
      const copy = new KeyboardEvent("keydown", {
        key,
        repeat,
        ctrlKey,
        metaKey,
        altKey,
        shiftKey,
        bubbles: true,
        cancelable: true,
      });
      if (!document.body.dispatchEvent(copy)) event.preventDefault();
    };
    inner.addEventListener("keydown", pressed);
    return () => {
      observer.disconnect();
      inner.removeEventListener("keydown", pressed);
    };
  }, [loads, isFitted]);

  if (away && !isShown) {
    return (
      <p dir="auto" className="leading-relaxed wrap-anywhere whitespace-pre-wrap">
        {text}
      </p>
    );
  }
  return (
    <>
      <iframe
        ref={frame}
        title={title}
        src={urlTo("showMessage", { id: messageId, images: images ? 1 : undefined })}
        sandbox={FRAME_SANDBOX}
        referrerPolicy="no-referrer"
        onLoad={() => setLoads((count) => count + 1)}
        style={{ height }}
        className="block w-full rounded"
      />
      {isSmaller && (
        <p className="mt-1 text-end print:hidden">
          <button
            type="button"
            onClick={() => setFitted(!isFitted)}
            className="min-h-8 rounded-md px-2 text-xs text-muted hover:bg-hover hover:text-ink max-md:min-h-10"
          >
            {isFitted ? "Show at full size" : "Fit to the width"}
          </button>
        </p>
      )}
    </>
  );
}
