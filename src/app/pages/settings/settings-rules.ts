/** Rules and absences of mailboxes: queries, and rules in words. */
import { queryOptions } from "@tanstack/react-query";
import { type Answer, api, type Input, MOST_OF_A_PAGE } from "../../lib/api-client.ts";
import type { ThreadView } from "../../lib/mail-views.ts";
import { MOST_MATCHING } from "../../lib/selection.ts";

export type RuleView = Answer<"getOwnRules">["rules"][number];
export type GivenRule = Input<"setOwnRules">["rules"][number];

export const RULES = ["settings", "rules"] as const;

export const rulesQuery = (id: string) =>
  queryOptions({
    queryKey: [...RULES, id],
    queryFn: () => api.getOwnRules({ id }),
  });

export const absenceQuery = (id: string) =>
  queryOptions({
    queryKey: [...RULES, id, "absence"],
    queryFn: async () => {
      const { from, until, text, ...more } = await api.getOwnAbsence({ id });
      return from === null || until === null || text === null ? null : { from, until, text, ...more };
    },
  });

/** How much past mail a query finds. */
export const ruleMatchesQuery = (id: string, match: string) =>
  queryOptions({
    queryKey: [...RULES, id, "matches", match],
    queryFn: () => api.testOwnRule({ id, match }),
    enabled: match !== "",
    retry: false,
  });

/** A rule as it is sent: without what the server says about it. */
export const givenRule = ({ name, match, actions, enabled }: RuleView): GivenRule => ({
  ...(name !== undefined && { name }),
  match,
  enabled,
  actions: actions.map(({ type, label, to }) => ({
    type,
    ...(label !== undefined && { label }),
    ...(to !== undefined && { to }),
  })),
});

type Action = GivenRule["actions"][number];

const inWords = ({ type, label, to }: Action): string => {
  switch (type) {
    case "label":
      return `label it ${label}`;
    case "star":
      return "star it";
    case "archive":
      return "keep it out of the inbox";
    case "trash":
      return "move it to trash";
    case "forward":
      return `forward it to ${to}`;
  }
};

/** Tells what a rule does, as the end of a sentence. */
export function describeRuleActions({ actions }: Pick<GivenRule, "actions">): string {
  const actionWords = actions.map(inWords);
  const last = actionWords.pop() ?? "";
  return actionWords.length === 0 ? last : `${actionWords.join(", ")} and ${last}`;
}

/** The list with the item at `from` moved to `to`. */
export function moveListItem<T>(list: readonly T[], from: number, to: number): T[] {
  const rest = list.toSpliced(from, 1);
  return rest.toSpliced(to, 0, ...list.slice(from, from + 1));
}

/** The conversations that a query finds, at most MOST_MATCHING. */
export async function matchingThreads(mailbox: string, q: string): Promise<ThreadView[]> {
  const found: ThreadView[] = [];
  for (let cursor: string | undefined; found.length < MOST_MATCHING; ) {
    const page = await api.listThreads({ mailbox, folder: "all", q, limit: MOST_OF_A_PAGE, cursor });
    found.push(...page.threads);
    if (page.nextCursor === null) break;
    cursor = page.nextCursor;
  }
  return found;
}
