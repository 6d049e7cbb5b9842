/** The new message that is being written, if any: it stays while its writer looks around. */
import { cell } from "./cell.ts";

export interface NewMessage {
  /** Address of the mailbox that it comes from; absent: the one that is shown. */
  from?: string | undefined;
}

const open = cell<NewMessage | undefined>(undefined);

/** One at a time: what is being written is not thrown away for another. */
export const startMessage = (from?: string): void => {
  if (!open.get()) open.set({ from });
};
export const closeMessage = (): void => open.set(undefined);
export const useNewMessage = open.use;
