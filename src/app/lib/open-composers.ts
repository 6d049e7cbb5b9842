/**
 * The messages in composer windows, which stay open while the person goes to other pages, and what the person is told
 * after Send.
 */
import { api, Refusal } from "./api-client.ts";
import { createSharedValue } from "./cell.ts";
import type { Start } from "./draft-content.ts";
import type { SentDraft } from "./mail-views.ts";
import { queryClient, refreshMail } from "./queries.ts";
import { dayAndTime, msUntil } from "./time-format.ts";
import { toast, toastFailure } from "./toast.ts";

type Begun =
  | {
      kind: "new";
      /** Sender address; absent: the address of the mailbox on the page. */
      from?: string | undefined;
      /** A recipient to begin with. */
      to?: string | undefined;
    }
  | {
      kind: "draft";
      draftId: string;
      /** True: the app made the draft, and the person has not seen it yet. */
      fresh: boolean;
    }
  | { kind: "unsaved"; start: Start };

type Size = "normal" | "minimised" | "large";

export type Composing = Begun & {
  key: number;
  /** The draft, once it is saved. It is opened when the person returns from the settings. */
  draftId?: string;
  /** The subject, for the window's title. */
  subject: string;
  size: Size;
};

/** The oldest is saved and closed when there are more. */
const MOST_WINDOWS = 8;
/** Room that a window takes, and that all of them leave to the sidebar and to minimised ones, px. */
const WINDOW_PX = 652;
const SIDES_PX = 300;

/** Open composers, in the order in which they were opened. */
const windows = createSharedValue<readonly Composing[]>([]);
let count = 0;

/** Shows a window; minimises the oldest ones that have no room beside it. */
function show(all: readonly Composing[], key: number, size: "normal" | "large" = "normal"): void {
  let room = size === "large" ? 0 : Math.max(1, Math.floor((innerWidth - SIDES_PX) / WINDOW_PX)) - 1;
  const arranged = all.toReversed().map((one): Composing => {
    if (one.key === key) return { ...one, size };
    if (one.size === "normal" && room-- > 0) return one;
    return { ...one, size: "minimised" };
  });
  windows.set(arranged.toReversed());
}

function open(begun: Begun): void {
  const key = ++count;
  show([...windows.get(), { ...begun, key, subject: "", size: "normal" as const }].slice(-MOST_WINDOWS), key);
}

/** Opens a window for a new message. */
export const openNewMessage = (from?: string, to?: string): void => open({ kind: "new", from, to });
/** Opens a draft, unless a window has it. */
function openDraft(draftId: string, { fresh } = { fresh: false }): void {
  const known = windows.get().find((one) => one.draftId === draftId);
  if (known) show(windows.get(), known.key);
  else open({ kind: "draft", draftId, fresh });
}
/** Opens a message again whose last save failed. */
export const reopenUnsavedMessage = (start: Start): void => open({ kind: "unsaved", start });

function change(key: number, by: Partial<Composing>): void {
  windows.set(windows.get().map((one) => (one.key === key ? ({ ...one, ...by } as Composing) : one)));
}
/** Notes the draft as which the message in a window was saved. */
export function noteSavedDraft(key: number, draftId: string): void {
  if (windows.get().some((one) => one.key === key && one.draftId !== draftId)) change(key, { draftId });
}
export const noteComposerSubject = (key: number, subject: string): void => change(key, { subject });
export function resizeComposer(key: number, size: Size): void {
  if (size === "minimised") change(key, { size });
  else show(windows.get(), key, size);
}
/** Closes a window, which saves what is in it. */
export const closeComposer = (key: number): void => windows.set(windows.get().filter((one) => one.key !== key));
export const useMessageWindows = windows.use;

/** Makes a draft that forwards the message, and opens it. */
export async function forwardMessage(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.forwardMessage({ id: messageId });
    openDraft(draftId, { fresh: true });
    refreshMail([]);
  } catch (error) {
    toastFailure(error);
  }
}

/** Makes a draft of the person's own with what a held message has, and opens it. */
export async function editHeldCopy(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.copyHeld({ id: messageId });
    openDraft(draftId);
    toast({ text: "This copy is yours. The original still waits: reject it if you send yours instead" });
    refreshMail([]);
  } catch (error) {
    toastFailure(error);
  }
}

/** A message that is due later than this is shown as scheduled, ms. */
const SOON_MS = 60_000;
export const isSendingSoon = (dueAt: string): boolean => msUntil(dueAt) <= SOON_MS;
/** Wait after the due time, and before each further check, ms. */
const CHECK_AFTER_MS = 1_500;
const MOST_CHECKS = 10;

/** `takeBack`: undoes what was done beside sending. */
export function tellSent({ due }: SentDraft, takeBack?: () => void): void {
  refreshMail();
  if (!due) {
    toast({ text: "Sent" });
    return;
  }
  const { draftId, at, inMs } = due;
  queryClient.removeQueries({ queryKey: ["draft", draftId] });
  function undo(): void {
    takeBack?.();
    void undoSend(draftId);
  }
  if (inMs > SOON_MS) {
    toast({ text: `Scheduled for ${dayAndTime(at)}`, undo });
    return;
  }
  toast({ text: "Sending…", undo, shownMs: Math.max(1_000, inMs) });
  setTimeout(() => void checkOutcome(draftId, MOST_CHECKS), inMs + CHECK_AFTER_MS);
}

/** Makes it a draft again, and opens it. */
async function undoSend(draftId: string): Promise<void> {
  try {
    await api.undoSend({ id: draftId });
    queryClient.removeQueries({ queryKey: ["draft", draftId] });
    openDraft(draftId);
    refreshMail();
  } catch (error) {
    const late = error instanceof Refusal && error.status === 404;
    toast({ text: late ? "Too late: it was sent" : (error as Error).message, tone: "danger" });
  }
}

/** Looks up the outcome and tells it. While the message still waits, checks again, `checks` times at most. */
async function checkOutcome(draftId: string, checks: number): Promise<void> {
  try {
    const { dueAt, refusal } = await api.openDraft({ id: draftId });
    if (refusal !== null) toast({ text: `Not sent: ${refusal}`, tone: "danger", shownMs: 20_000 });
    else if (dueAt !== null && msUntil(dueAt) <= 0 && checks > 0)
      setTimeout(() => void checkOutcome(draftId, checks - 1), CHECK_AFTER_MS);
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) toast({ text: "Sent" });
  }
  queryClient.removeQueries({ queryKey: ["draft", draftId] });
  refreshMail();
}
