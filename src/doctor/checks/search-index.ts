/** Every message is in the search index, and nothing else is. */
import type { Check } from "../check.ts";

export const checkSearchIndex: Check = ({ store }) => {
  const base = { id: "search", name: "Search index" } as const;
  const row = store.db.$client
    .query<{ messages: number; indexed: number }, []>(
      "SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM message_index_docsize) AS indexed",
    )
    .get();
  const { messages = 0, indexed = 0 } = row ?? {};
  if (messages === indexed) return [{ ...base, state: "ok", detail: `it has all ${messages} messages` }];
  return [
    {
      ...base,
      state: "bad",
      detail: `it has ${indexed} of ${messages} messages`,
      todo: "Build it anew: mailroom reindex",
    },
  ];
};
