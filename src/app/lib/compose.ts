/**
 * The message in the composer window, which stays open while the person goes to other pages, and what the person is
 * told after Send.
 */
import { api, type SentDraft } from "./api.ts";
import { Refusal } from "./call.ts";
import { cell } from "./cell.ts";
import type { Start } from "./draft-content.ts";
import { queryClient, refreshMail } from "./queries.ts";
import { fullTime, msUntil } from "./time.ts";
import { toast, toastFailure } from "./toast.ts";

export type Composing = {
  key: number;
  /** The draft, once it is saved. It is opened when the person returns from the settings. */
  draftId?: string;
} & (
  | {
      kind: "new";
      /** Sender address; absent: the address of the mailbox on the page. */
      from?: string | undefined;
    }
  | {
      kind: "draft";
      draftId: string;
      /** True: the app made the draft, and the person has not seen it yet. */
      fresh: boolean;
    }
  | { kind: "unsaved"; start: Start }
);

const open = cell<Composing | undefined>(undefined);
let count = 0;

/** Opens the window for a new message, unless it has one already. */
export const startMessage = (from?: string): void => {
  if (open.get()?.kind !== "new") open.set({ key: ++count, kind: "new", from });
};
/** Opens a draft. The message in the window before is kept as a draft. */
const openDraft = (draftId: string, { fresh } = { fresh: false }): void =>
  open.set({ key: ++count, kind: "draft", draftId, fresh });
/** Opens a message again whose last save failed. */
export const reopen = (start: Start): void => open.set({ key: ++count, kind: "unsaved", start });
/** Notes the draft as which the message in the window was saved. */
export function noteSaved(key: number, draftId: string): void {
  const composing = open.get();
  if (composing?.key === key && composing.draftId !== draftId) open.set({ ...composing, draftId });
}
export const closeMessage = (): void => open.set(undefined);
export const useComposing = open.use;

/** Makes a draft that forwards the message, and opens it. */
export async function forwardMessage(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.forward(messageId);
    openDraft(draftId, { fresh: true });
    refreshMail([]);
  } catch (error) {
    toastFailure(error);
  }
}

/** Makes a draft of the person's own with what a held message has, and opens it. */
export async function editCopy(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.copyHeld(messageId);
    openDraft(draftId);
    toast({ text: "This copy is yours. The message itself waits on: reject it if you send yours instead" });
    refreshMail([]);
  } catch (error) {
    toastFailure(error);
  }
}

/** A message that is due later than this is shown as scheduled, ms. */
const SOON_MS = 60_000;
export const isOnItsWay = (dueAt: string): boolean => msUntil(dueAt) <= SOON_MS;
/** Wait after the due time, and before each further check, ms. */
const CHECK_AFTER_MS = 1_500;
const MOST_CHECKS = 10;

export function tellSent({ due }: SentDraft): void {
  refreshMail();
  if (!due) {
    toast({ text: "Sent" });
    return;
  }
  const { draftId, at, inMs } = due;
  queryClient.removeQueries({ queryKey: ["draft", draftId] });
  const undo = () => void undoSend(draftId);
  if (inMs > SOON_MS) {
    toast({ text: `To be sent ${fullTime(at)}`, undo });
    return;
  }
  toast({ text: "Sending…", undo, shownMs: Math.max(1_000, inMs) });
  setTimeout(() => void checkOutcome(draftId, MOST_CHECKS), inMs + CHECK_AFTER_MS);
}

/** Makes it a draft again, and opens it. */
export async function undoSend(draftId: string): Promise<void> {
  try {
    await api.undoSend(draftId);
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
    const { dueAt, refusal } = await api.draft(draftId);
    if (refusal !== null) toast({ text: `Not sent: ${refusal}`, tone: "danger", shownMs: 20_000 });
    else if (dueAt !== null && msUntil(dueAt) <= 0 && checks > 0)
      setTimeout(() => void checkOutcome(draftId, checks - 1), CHECK_AFTER_MS);
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) toast({ text: "Sent" });
  }
  queryClient.removeQueries({ queryKey: ["draft", draftId] });
  refreshMail();
}
