/** What the app says in passing, one thing at a time, and the last thing that can be undone. */
import { cell } from "./cell.ts";

export interface Toast {
  text: string;
  undo?: () => void;
  tone?: "danger";
}

const SHOWN_MS = 7_000;

const current = cell<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

export function toast(shown: Toast | undefined): void {
  clearTimeout(timer);
  current.set(shown);
  if (shown) timer = setTimeout(() => current.set(undefined), SHOWN_MS);
}

export const dismissToast = (): void => toast(undefined);

/** Undoes what is being told of, if it can be. */
export function undoLatest(): void {
  const undo = current.get()?.undo;
  if (!undo) return;
  dismissToast();
  undo();
}

export const useToast = current.use;
