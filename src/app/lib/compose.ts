/** The message in the composer window, if it is open. It stays open while the person goes to other pages. */
import { api } from "./api.ts";
import { cell } from "./cell.ts";
import { refreshMail } from "./queries.ts";
import { toast } from "./toast.ts";
import type { Start } from "./writing.ts";

export type Composing = { key: number } & (
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
export const openDraft = (draftId: string, { fresh } = { fresh: false }): void =>
  open.set({ key: ++count, kind: "draft", draftId, fresh });
/** Opens a message again whose last save failed. */
export const reopen = (start: Start): void => open.set({ key: ++count, kind: "unsaved", start });
export const closeMessage = (): void => open.set(undefined);
export const useComposing = open.use;

/** Makes a draft that forwards the message, and opens it. */
export async function forwardMessage(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.forward(messageId);
    openDraft(draftId, { fresh: true });
    refreshMail([]);
  } catch (error) {
    toast({ text: (error as Error).message, tone: "danger" });
  }
}
