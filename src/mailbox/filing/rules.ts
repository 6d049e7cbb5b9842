/**
 * Rules of a mailbox: what it does with mail that arrives (rules: Mail rules). Filing asks them in its transaction, before
 * it writes the message, so that mail is in its place when anybody first sees it. The only writer of mailbox_rules.
 *
 * Every rule is judged by the message and its conversation as filing alone would leave them, so none sees what another did.
 */
import { eq, sql } from "drizzle-orm";
import { AppError } from "../../base/errors.ts";
import { filledStringSchema, type Given, type Static, stringEnum, t } from "../../base/json-schema.ts";
import { settleKeyChanges } from "../../journal/key-changes.ts";
import { envelopeAddress, isAddressLiteral, normalizeAddress, splitAddress } from "../../message/address.ts";
import { createQueryMatcher } from "../../search/matching.ts";
import { parseQuery, type ThreadCondition } from "../../search/query.ts";
import { type Folder, mailboxRules, RULE_ACTIONS, type Rule, type RuleAction } from "../../store/schema.ts";
import type { Options } from "../../store/settings.ts";
import { perDatabase, prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { hasThreadMark, isShownInFolderList } from "../reading/walk.ts";
import { isDomainVerifiedByWorkspace } from "../state/addresses.ts";
import { addLabels, labelKey, listThreadLabels, requireNonEmptyLabels } from "../state/labels.ts";
import type { PreparedMessage } from "./prepare.ts";
import type { ThreadRow, ThreadState } from "./threading.ts";

/** Rules of a mailbox, characters of all their queries together, and addresses that they forward to. */
export const MOST_RULES = 100;
const MOST_CHARACTERS = 10_000;
const MOST_FORWARDED_TO = 10;
const MOST_ACTIONS = 10;
/** Characters. */
const LONGEST_NAME = 100;
const LONGEST_QUERY = 500;
const LONGEST_LABEL = 60;
const LONGEST_ADDRESS = 320;

const statements = {
  put: statement<unknown, [mailboxId: string, json: string]>(
    "INSERT INTO mailbox_rules (mailbox_id, rules) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET rules = ?2",
  ),
  star: statement<unknown, [threadSeq: number]>("UPDATE threads SET starred = 1 WHERE seq = ?"),
};

const queries = prepared((db) => ({
  rules: db
    .select({ text: sql<string>`${mailboxRules.rules}` })
    .from(mailboxRules)
    .where(eq(mailboxRules.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  remove: db
    .delete(mailboxRules)
    .where(eq(mailboxRules.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
}));

/** Reads the rules of a mailbox, in their order. */
export function readMailboxRules(db: Db, mailboxId: string): Rule[] {
  return JSON.parse(queries(db).rules.get({ mailboxId })?.text ?? "[]");
}

/** Replaces the rules of a mailbox. `rules`: from normalizeGivenRules. */
export function putRules(tx: Tx, mailboxId: string, rules: readonly Rule[]): void {
  if (rules.length === 0) queries(tx).remove.run({ mailboxId });
  else statements.put(tx).run(mailboxId, JSON.stringify(rules));
}

const fields = {
  name: t.Optional(t.String({ maxLength: LONGEST_NAME, description: "For people" })),
  match: filledStringSchema({
    maxLength: LONGEST_QUERY,
    description: "A search query, as `q` of GET /search: the rule is for mail that it would find",
  }),
};
const action = {
  type: stringEnum(RULE_ACTIONS, {
    description:
      "`label` labels the conversation, `star` stars it, `archive` keeps the mail out of the inbox, `trash` puts it in trash, `forward` sends it on",
  }),
  label: t.Optional(filledStringSchema({ maxLength: LONGEST_LABEL, description: "Of `label`, which needs it" })),
  to: t.Optional(
    filledStringSchema({
      maxLength: LONGEST_ADDRESS,
      description: "Of `forward`, which needs it: the address to send to",
    }),
  ),
};

/** A rule as people write it. */
export const GivenRule = t.Object(
  {
    ...fields,
    actions: t.Array(t.Object(action, { additionalProperties: false }), { minItems: 1, maxItems: MOST_ACTIONS }),
    enabled: t.Optional(t.Boolean({ description: "true when left out" })),
  },
  { additionalProperties: false },
);
export type GivenRule = Given<typeof GivenRule>;

/** A rule as it is told. */
export const RuleView = t.Object(
  {
    ...fields,
    actions: t.Array(
      t.Object({
        ...action,
        stopped: t.Optional(t.String({ description: "Why nothing is forwarded there now; for people" })),
      }),
    ),
    enabled: t.Boolean(),
    notes: t.Optional(
      t.Array(t.String(), {
        description:
          "Terms of `match` that look like operators and are searched as text, or that are never true of mail that arrives",
      }),
    ),
  },
  { $id: "MailRule" },
);
export type RuleView = Static<typeof RuleView>;

/** Brings rules, whose types are checked, into one spelling. `now`: epoch ms. @throws AppError bad_request */
export function normalizeGivenRules(given: readonly GivenRule[], now: number): Rule[] {
  const rules = given.map((rule, i) => readRule(rule, `rules[${i}]`, now));
  const characters = rules.reduce((sum, { match }) => sum + match.length, 0);
  if (characters > MOST_CHARACTERS) {
    throw new AppError(
      "bad_request",
      `the queries of the rules have ${characters} characters together; ${MOST_CHARACTERS} is the most`,
    );
  }
  if (new Set(listForwardAddresses(rules)).size > MOST_FORWARDED_TO) {
    throw new AppError("bad_request", `rules forward to ${MOST_FORWARDED_TO} addresses at most`);
  }
  return rules;
}

function readRule({ name, match, actions, enabled = true }: GivenRule, where: string, now: number): Rule {
  const wrong = (what: string) => new AppError("bad_request", `${where}: ${what}`);
  const query = match.trim();
  const { message, thread } = readQuery(query, now);
  if (message.length + thread.length === 0) throw wrong("match would apply to all mail: give words or operators");
  const read = actions.map((action) => readAction(action, wrong));
  const types = new Set(read.map(({ type }) => type));
  if (types.size === 0) throw wrong("give at least one action");
  if (types.has("archive") && types.has("trash")) throw wrong("mail goes to the archive or to trash, not to both");
  return { ...(name?.trim() && { name: name.trim() }), match: query, actions: distinct(read), enabled };
}

/** @throws AppError bad_request */
function readQuery(match: string, now: number) {
  try {
    return parseQuery(match, now);
  } catch (error) {
    if (error instanceof AppError) throw new AppError("bad_request", error.message.replace(/^q:/, "match:"));
    throw error;
  }
}

function readAction({ type, label, to }: GivenRule["actions"][number], wrong: (what: string) => AppError): RuleAction {
  if ((label !== undefined) !== (type === "label")) throw wrong("`label` is for the action label, which needs it");
  if ((to !== undefined) !== (type === "forward")) throw wrong("`to` is for the action forward, which needs it");
  if (label !== undefined) {
    requireNonEmptyLabels({ addLabels: [label] });
    return { type, label: label.trim() };
  }
  if (to === undefined) return { type };
  const address = envelopeAddress(to);
  if (address === undefined || isAddressLiteral(address)) throw wrong(`${JSON.stringify(to)} is no address`);
  return { type, to: address };
}

function distinct(actions: readonly RuleAction[]): RuleAction[] {
  const keys = actions.map(({ type, label = "", to = "" }) => [type, labelKey(label), normalizeAddress(to)].join(" "));
  return actions.filter((_, i) => keys.indexOf(keys[i] ?? "") === i);
}

/** Addresses that rules forward to, those of disabled ones too. */
export const listForwardAddresses = (rules: readonly { actions: readonly { to?: string | undefined }[] }[]): string[] =>
  rules.flatMap(({ actions }) => actions.flatMap(({ to }) => to ?? []));

/** True if an address is outside the verified domains of the workspace. */
export const isOutsideWorkspaceDomains = (db: Db, workspaceId: string, address: string): boolean =>
  !isDomainVerifiedByWorkspace(db, workspaceId, splitAddress(address).domain.toLowerCase());

/** True if rules may forward there now. */
export const mayForwardTo = (db: Db, options: Pick<Options, "get">, workspaceId: string, address: string): boolean =>
  options.get("rules.forwardOutside") || !isOutsideWorkspaceDomains(db, workspaceId, address);

/** Notes for people on a query: which of its terms it takes as text, and which are never true of mail that arrives. */
export function listRuleQueryNotes(match: string, now: number): string[] {
  const { notes, thread } = readQuery(match, now);
  const never = thread.flatMap((condition) => {
    if (condition.kind === "unread") return condition.negated ? "is:read" : [];
    if (condition.kind !== "folder" || condition.folder === "starred") return [];
    const { folder, negated } = condition;
    return isShownInFolderList(folder, "inbox", false) === negated ? `${negated ? "-" : ""}in:${folder}` : [];
  });
  return [...notes, ...never.map((term) => `"${term}" is never true of mail that arrives`)];
}

/* What rules do with a message. */

/** A message that is about to be filed, and its conversation as filing would leave it. */
export interface Arriving {
  mailboxId: string;
  message: Pick<PreparedMessage, "index" | "attachments" | "size">;
  /** Epoch ms. */
  date: number;
  joined: ThreadRow | undefined;
  state: Pick<ThreadState, "folder" | "snoozedUntil" | "unread">;
  now: number;
}

/** Joint outcome of all rules that match a message. */
export interface RulesOutcome {
  labels: string[];
  starred: boolean;
  /** Folder that the first matching rule with a folder names. */
  folder?: "archive" | "trash";
  /** Addresses. */
  forwards: string[];
}

interface Compiled {
  text: string;
  day: number;
  rules: readonly { thread: readonly ThreadCondition[]; actions: readonly RuleAction[] }[];
  matches: ReturnType<typeof createQueryMatcher>;
}

/** Mailboxes whose rules are kept as they are evaluated. */
const MOST_KEPT = 1_000;
const DAY_MS = 86_400_000;

/** Compiled rules by mailbox, the latest used last. */
const compiled = perDatabase(() => new Map<string, Compiled>());

function compiledRules(db: Db, mailboxId: string, now: number): Compiled | undefined {
  const { text } = queries(db).rules.get({ mailboxId }) ?? {};
  if (text === undefined) return undefined;
  const cache = compiled(db);
  const day = Math.floor(now / DAY_MS);
  const known = cache.get(mailboxId);
  cache.delete(mailboxId);
  // Ages in queries count from the day.
  const present = known?.text === text && known.day === day ? known : compile(text, day);
  cache.set(mailboxId, present);
  const [leastRecent] = cache.keys();
  if (cache.size > MOST_KEPT && leastRecent !== undefined) cache.delete(leastRecent);
  return present;
}

function compile(text: string, day: number): Compiled {
  const rules = enabledIn(text, day);
  return { text, day, rules, matches: createQueryMatcher(rules.map(({ message }) => message)) };
}

/** Rules that cannot be read, of an import that somebody made up, must not keep mail out: they do nothing. */
function enabledIn(text: string, day: number) {
  try {
    return normalizeGivenRules(JSON.parse(text), day * DAY_MS)
      .filter(({ enabled }) => enabled)
      .map(({ match, actions }) => ({ ...parseQuery(match, day * DAY_MS), actions }));
  } catch {
    return [];
  }
}

/** Evaluates the rules of a mailbox for a message that arrives. Undefined if no rule acts on it. */
export function judgeByRules(tx: Tx, arriving: Arriving): RulesOutcome | undefined {
  const { mailboxId, message, date, now } = arriving;
  const rules = compiledRules(tx, mailboxId, now);
  if (!rules) return undefined;
  const found = rules.matches({
    document: message.index,
    date,
    size: message.size,
    hasAttachments: message.attachments.length > 0,
  });
  const holds = threadTest(tx, arriving);
  const actions = rules.rules.flatMap(({ thread, actions }, i) => (found[i] && thread.every(holds) ? actions : []));
  if (actions.length === 0) return undefined;
  const folder = actions.find(({ type }) => type === "archive" || type === "trash")?.type as RulesOutcome["folder"];
  return {
    labels: actions.flatMap(({ label }) => label ?? []),
    starred: actions.some(({ type }) => type === "star"),
    ...(folder && { folder }),
    forwards: [...new Set(actions.flatMap(({ to }) => to ?? []))],
  };
}

/** Tests conditions on the conversation, as mailbox/reading/listing.ts finds them. */
function threadTest(tx: Tx, { joined, state }: Arriving): (condition: ThreadCondition) => boolean {
  let labels: ReadonlySet<string> | undefined;
  const starred = joined?.starred === true;
  const hasLabel = (label: string): boolean => {
    labels ??= new Set(joined && listThreadLabels(tx, [joined.seq]).get(joined.seq)?.map(labelKey));
    return labels.has(labelKey(label));
  };
  const test = (condition: ThreadCondition): boolean => {
    switch (condition.kind) {
      case "folder":
        return (
          isShownInFolderList(condition.folder, state.folder, state.snoozedUntil !== null) &&
          (condition.folder !== "starred" || starred)
        );
      case "label":
        return hasLabel(condition.label);
      case "unread":
        return state.unread;
      default:
        return hasThreadMark(joined, condition);
    }
  };
  return (condition) => test(condition) !== condition.negated;
}

/**
 * The folder of a conversation after a message that rules put somewhere. Mail that goes to the archive leaves in the inbox
 * what is there; a conversation goes to trash only if all of it does.
 */
export function folderByRules(
  { folder }: Pick<RulesOutcome, "folder">,
  joined: Pick<ThreadRow, "folder"> | undefined,
  present: Folder,
): Folder {
  if (folder === "trash") return "trash";
  return folder === "archive" && joined?.folder !== "inbox" ? "archive" : present;
}

/** Labels and stars a conversation. Both count as done by arriving mail, not by a key. */
export function markByRules(
  tx: Tx,
  threadSeq: number,
  { labels, starred }: Pick<RulesOutcome, "labels" | "starred">,
): void {
  if (labels.length > 0) addLabels(tx, threadSeq, labels);
  for (const label of labels) settleKeyChanges(tx, threadSeq, "label", "mail", labelKey(label));
  if (!starred) return;
  statements.star(tx).run(threadSeq);
  settleKeyChanges(tx, threadSeq, "starred", "mail");
}
