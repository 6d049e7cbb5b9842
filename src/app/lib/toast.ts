/**
 * What the app says in passing, one thing at a time, and what can be undone: what is being told of, and of what was told
 * before, that which can be undone later too.
 */
import { cell } from "./cell.ts";

export interface Toast {
  text: string;
  undo?: () => void;
  /** It can be undone also when it is no longer told. */
  lasting?: boolean;
  tone?: "danger";
  /** How long it is shown, ms. */
  shownMs?: number;
}

const SHOWN_MS = 7_000;
const MOST_UNDONE = 30;

const current = cell<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;
/** The latest last. */
const lasting: (() => void)[] = [];

export function toast(shown: Toast | undefined): void {
  clearTimeout(timer);
  current.set(shown);
  if (!shown) return;
  if (shown.lasting && shown.undo) lasting.splice(0, lasting.push(shown.undo) - MOST_UNDONE);
  timer = setTimeout(() => current.set(undefined), shown.shownMs ?? SHOWN_MS);
}

export const dismissToast = (): void => toast(undefined);

/** Undoes what is being told of; else the latest that can still be undone. */
export function undoLatest(): void {
  const shown = current.get()?.undo;
  const undo = shown ?? lasting.at(-1);
  if (!undo) return;
  if (undo === lasting.at(-1)) lasting.pop();
  dismissToast();
  undo();
}

export const useToast = current.use;
