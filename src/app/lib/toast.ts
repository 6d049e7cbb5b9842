/**
 * Short messages over the page, one at a time, and the undo of actions: of the present message's, and of the latest
 * lasting ones.
 */
import { createSharedValue } from "./cell.ts";

export interface Toast {
  text: string;
  undo?: () => void;
  /** True: it can still be undone after the message is gone. */
  lasting?: boolean;
  tone?: "danger";
  /** Time on the page, ms. */
  shownMs?: number;
}

const SHOWN_MS = 7_000;
const MOST_UNDONE = 30;

const current = createSharedValue<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;
/** Undos of lasting actions, the latest last. */
const lasting: (() => void)[] = [];

export function toast(shown: Toast | undefined): void {
  clearTimeout(timer);
  current.set(shown);
  if (!shown) return;
  if (shown.lasting && shown.undo) lasting.splice(0, lasting.push(shown.undo) - MOST_UNDONE);
  timer = setTimeout(() => current.set(undefined), shown.shownMs ?? SHOWN_MS);
}

/** Shows why something failed. `error`: an Error in words for people. */
export const toastFailure = (error: unknown): void => toast({ text: (error as Error).message, tone: "danger" });

export const dismissToast = (): void => toast(undefined);

/** Undoes the action of the present message, else the latest lasting one. */
export function undoLatest(): void {
  const shown = current.get()?.undo;
  const undo = shown ?? lasting.at(-1);
  if (!undo) return;
  if (undo === lasting.at(-1)) lasting.pop();
  dismissToast();
  undo();
}

export const useToast = current.use;
