/** Messages to the sender after Send: undo, and later the refusal if there is one. */
import { api, type SentDraft } from "./api.ts";
import { Refusal } from "./ask.ts";
import { openDraft } from "./compose.ts";
import { queryClient, refreshMail } from "./queries.ts";
import { fullTime, msUntil } from "./time.ts";
import { toast } from "./toast.ts";

/** A message that is due later than this is shown as scheduled, ms. */
const SOON_MS = 60_000;
export const isOnItsWay = (dueAt: string): boolean => msUntil(dueAt) <= SOON_MS;
/** Wait after the due time before the next look, ms. */
const LOOK_MS = 1_500;
const MOST_LOOKS = 10;

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
  setTimeout(() => void look(draftId, MOST_LOOKS), inMs + LOOK_MS);
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

/** Looks up the outcome and tells it. While the message still waits, looks again, `looks` times at most. */
async function look(draftId: string, looks: number): Promise<void> {
  try {
    const { dueAt, refusal } = await api.draft(draftId);
    if (refusal !== null) toast({ text: `Not sent: ${refusal}`, tone: "danger", shownMs: 20_000 });
    else if (dueAt !== null && msUntil(dueAt) <= 0 && looks > 0)
      setTimeout(() => void look(draftId, looks - 1), LOOK_MS);
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) toast({ text: "Sent" });
  }
  queryClient.removeQueries({ queryKey: ["draft", draftId] });
  refreshMail();
}
