/** The message that is being written over whatever is shown, if any: it stays while its writer looks around. */
import { api } from "./api.ts";
import { cell } from "./cell.ts";
import { refreshMail } from "./queries.ts";
import { toast } from "./toast.ts";
import type { Start } from "./writing.ts";

export type Composing = { key: number } & (
  | {
      kind: "new" /** Address that it comes from; absent: that of the mailbox that is shown. */;
      from?: string | undefined;
    }
  | { kind: "draft"; draftId: string /** Begun for its writer, who has not seen it yet. */; fresh: boolean }
  | { kind: "unsaved"; start: Start }
);

const open = cell<Composing | undefined>(undefined);
let count = 0;

/** A new message, unless one is being written. */
export const startMessage = (from?: string): void => {
  if (open.get()?.kind !== "new") open.set({ key: ++count, kind: "new", from });
};
/** A draft; what is open is kept as one. */
export const openDraft = (draftId: string, { fresh } = { fresh: false }): void =>
  open.set({ key: ++count, kind: "draft", draftId, fresh });
/** What could not be saved when its writer left it. */
export const reopen = (start: Start): void => open.set({ key: ++count, kind: "unsaved", start });
export const closeMessage = (): void => open.set(undefined);
export const useComposing = open.use;

/** Begins to forward a message. */
export async function forwardMessage(messageId: string): Promise<void> {
  try {
    const { draftId } = await api.forward(messageId);
    openDraft(draftId, { fresh: true });
    refreshMail([]);
  } catch (error) {
    toast({ text: (error as Error).message, tone: "danger" });
  }
}
