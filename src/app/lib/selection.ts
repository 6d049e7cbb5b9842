/**
 * Selects conversations of a list: one, a range, all on the page, or all that match; and connects the list with the open
 * conversation.
 */
import { createContext, useCallback, useMemo, useState } from "react";
import { api, MOST_OF_A_PAGE } from "./api-client.ts";
import type { ListFilters, ThreadView } from "./mail-views.ts";

/** Most conversations selected at once. */
export const MOST_MATCHING = 5_000;

interface Selected {
  /** The list that they belong to. */
  list: string;
  threads: ReadonlyMap<string, ThreadView>;
  /** Start of the next range. */
  anchor: string | undefined;
  /** True: the selection goes beyond the conversations on the page. */
  matching: boolean;
}

export interface Selection {
  /** The selected conversations, in their present state. */
  threads: ThreadView[];
  has(id: string): boolean;
  /** True: all conversations that match are selected, not only those on the page. */
  matching: boolean;
  /** `range`: all conversations from the last toggled one to this one get the state of this one. */
  toggle(id: string, range?: boolean): void;
  selectShown(): void;
  /** @throws Refusal */
  selectMatching(filters: ListFilters): Promise<void>;
  clear(): void;
}

/** The selection of the list named `list`, which shows `shown`. */
export function useSelection(list: string, shown: readonly ThreadView[]): Selection {
  const none: Selected = useMemo(() => ({ list, threads: new Map(), anchor: undefined, matching: false }), [list]);
  const [state, setState] = useState(none);
  const selected = state.list === list ? state : none;

  const threads = useMemo(() => {
    const present = new Map(shown.map((thread) => [thread.id, thread]));
    return [...selected.threads.values()].flatMap((thread) => {
      const now = present.get(thread.id);
      return now ? [now] : selected.matching ? [thread] : [];
    });
  }, [selected, shown]);
  const ids = useMemo(() => new Set(threads.map(({ id }) => id)), [threads]);

  function toggle(id: string, range = false): void {
    const next = new Map(threads.map((thread) => [thread.id, thread]));
    const at = shown.findIndex((thread) => thread.id === id);
    const from = range ? shown.findIndex((thread) => thread.id === selected.anchor) : -1;
    const among = from < 0 ? [at, at] : [Math.min(from, at), Math.max(from, at)];
    const adds = !next.has(id);
    for (const thread of shown.slice(among[0], (among[1] ?? at) + 1)) {
      if (adds) next.set(thread.id, thread);
      else next.delete(thread.id);
    }
    setState({ list, threads: next, anchor: id, matching: false });
  }

  return {
    threads,
    has: (id) => ids.has(id),
    matching: selected.matching,
    toggle,
    selectShown: () => setState({ ...none, threads: new Map(shown.map((thread) => [thread.id, thread])) }),
    async selectMatching(filters) {
      const found = new Map<string, ThreadView>();
      for (let cursor: string | undefined; found.size < MOST_MATCHING; ) {
        const page = await api.listThreads({ ...filters, limit: MOST_OF_A_PAGE, cursor });
        for (const thread of page.threads) found.set(thread.id, thread);
        if (page.nextCursor === null) break;
        cursor = page.nextCursor;
      }
      setState({ ...none, threads: found, matching: true });
    },
    clear: useCallback(() => setState(none), [none]),
  };
}

/** Connects the list of conversations with the open one beside it. */
export const ListContext = createContext<{
  /** Call it when the open conversation leaves the list. `to`: the page to go to next. */
  left: (to?: "next" | "previous" | "list") => void;
  /** True: conversations are selected, and shortcuts act on them. */
  selecting: boolean;
}>({ left: () => {}, selecting: false });
