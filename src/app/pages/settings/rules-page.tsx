/** Rules of a mailbox in sentences, tried on past mail as they are written; and its out-of-office. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowDown, ArrowUp, X } from "lucide-react";
import { type ReactNode, useDeferredValue, useState } from "react";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { mailboxesQuery, meQuery, useChange } from "../../lib/queries.ts";
import { threadActions } from "../../lib/thread-actions.ts";
import { localTimeInputBounds, toLocalTimeInput } from "../../lib/time-format.ts";
import { toast, toastFailure } from "../../lib/toast.ts";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { Badge, Nothing, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button, IconButton } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Area, Checkbox, Field, Select } from "../../parts/ui/fields.tsx";
import { Form, type Given } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import {
  absenceQuery,
  describeRuleActions,
  type GivenRule,
  givenRule,
  matchingThreads,
  moveListItem,
  RULES,
  type RuleView,
  ruleMatchesQuery,
  rulesQuery,
} from "./settings-rules.ts";

const INTRO =
  "What happens to mail as it arrives, and what people are told while nobody reads it. Rules do nothing with spam.";

export function RulesPage() {
  const { mailbox: asked, match = "" } = useSearch({ from: "/settings/rules" });
  const me = useQuery(meQuery);
  const list = useQuery(mailboxesQuery);
  const navigate = useNavigate();
  if (!list.data) return <NotLoaded query={list} what="your mailboxes" />;
  if (!me.data) return <NotLoaded query={me} what="your mailboxes" />;
  const email = me.data.email;
  const managed = list.data.filter(({ access }) => access.manage);
  const mailbox =
    managed.find(({ id }) => id === asked) ?? managed.find(({ address }) => address === email) ?? managed[0];
  return (
    <SettingsPage title="Rules and absence" intro={INTRO}>
      {mailbox === undefined ? (
        <Nothing>You manage no mailbox.</Nothing>
      ) : (
        <>
          {managed.length > 1 && (
            <Select
              label="Mailbox"
              choices={managed.map(({ id, address }) => ({ value: id, text: address }))}
              value={mailbox.id}
              onChange={({ target: { value } }) => navigate({ to: ".", search: { mailbox: value } })}
            />
          )}
          <MailRules key={mailbox.id} id={mailbox.id} match={match} />
          <OutOfOffice key={`${mailbox.id} absence`} id={mailbox.id} address={mailbox.address} />
        </>
      )}
    </SettingsPage>
  );
}

function MailRules({ id, match }: { id: string; match: string }) {
  const query = useQuery(rulesQuery(id));
  const change = useChange(api.setOwnRules, { key: RULES });
  /** The place of the rule that is changed. */
  const [changed, setChanged] = useState<number>();
  if (!query.data) return <NotLoaded query={query} what="the rules" />;
  const { rules, forwardOutside } = query.data;
  const given = rules.map(givenRule);
  const put = (next: readonly GivenRule[]) => change.mutate({ id, rules: [...next] });
  return (
    <>
      <ListPanel
        of={rules}
        title="Rules"
        about="Every rule that matches acts. Of archive and trash, the first one decides."
        empty="There is none yet."
      >
        {/* Rules have no identity but their position. */}
        {(rule, i) =>
          i === changed ? (
            <li key={i}>
              <RuleForm
                id={id}
                rule={rule}
                rules={given}
                position={i}
                forwardOutside={forwardOutside}
                done={() => setChanged(undefined)}
              />
            </li>
          ) : (
            <RuleRow
              key={i}
              rule={rule}
              busy={change.isPending}
              up={i > 0 ? () => put(moveListItem(given, i, i - 1)) : undefined}
              down={i < rules.length - 1 ? () => put(moveListItem(given, i, i + 1)) : undefined}
              toggle={() => put(given.with(i, { ...givenRule(rule), enabled: !rule.enabled }))}
              edit={() => setChanged(i)}
              remove={() => put(given.toSpliced(i, 1))}
              apply={() => void apply(id, rule)}
            />
          )
        }
      </ListPanel>
      <Panel title="New rule">
        <RuleForm
          key={`${rules.length} ${match}`}
          id={id}
          rule={{ match, actions: [], enabled: true }}
          rules={given}
          position={rules.length}
          forwardOutside={forwardOutside}
        />
      </Panel>
    </>
  );
}

/** Does to past mail what a rule does to new, but for forwarding. Each step can be undone. */
async function apply(id: string, { match, actions }: RuleView): Promise<void> {
  try {
    const threads = await matchingThreads(id, match);
    if (threads.length === 0) toast({ text: "No past mail matches" });
    for (const { type, label } of actions) {
      if (type === "star") await threadActions.star(threads, true);
      if (type === "label" && label !== undefined) await threadActions.addLabel(threads, label);
      if (type === "archive" || type === "trash") await threadActions.move(threads, type);
    }
  } catch (error) {
    toastFailure(error);
  }
}

function RuleRow({
  rule,
  busy,
  up,
  down,
  toggle,
  edit,
  remove,
  apply,
}: {
  rule: RuleView;
  busy: boolean;
  /** Undefined at the ends of the list. */
  up: (() => void) | undefined;
  down: (() => void) | undefined;
  toggle(): void;
  edit(): void;
  remove(): void;
  apply(): void;
}) {
  const { name, match, actions, enabled, notes = [] } = rule;
  const called = name ?? match;
  const stopped = actions.flatMap((action) => action.stopped ?? []);
  const doesToPast = actions.some(({ type }) => type !== "forward");
  return (
    <li className="space-y-2">
      <div className="flex items-start gap-2">
        <div className="min-w-0 grow">
          {name !== undefined && <p className="font-medium break-words">{name}</p>}
          <p className="break-words">
            Mail that matches <code className="rounded bg-hover px-1 break-all">{match}</code>:{" "}
            {describeRuleActions(rule)}. {!enabled && <Badge tone="quiet">off</Badge>}
          </p>
          {[...notes, ...stopped].map((note) => (
            <p key={note} className="mt-1 text-sm text-danger">
              {note}
            </p>
          ))}
        </div>
        <IconButton icon={ArrowUp} label={`Move ${called} up`} disabled={busy || !up} onClick={up} />
        <IconButton icon={ArrowDown} label={`Move ${called} down`} disabled={busy || !down} onClick={down} />
        <IconButton icon={X} label={`Remove ${called}`} disabled={busy} onClick={remove} />
      </div>
      <div className="flex flex-wrap gap-2">
        <Button aria-label={`Change ${called}`} onClick={edit}>
          Change
        </Button>
        <Button aria-label={`${enabled ? "Turn off" : "Turn on"} ${called}`} disabled={busy} onClick={toggle}>
          {enabled ? "Turn off" : "Turn on"}
        </Button>
        {doesToPast && (
          <ConfirmButton
            question="Do this to past mail?"
            action="Do it"
            consequences={
              <p>
                Conversations outside trash and spam that match, 5,000 at most, are treated alike:{" "}
                {describeRuleActions(rule)}. Nothing is forwarded. What is done can be undone.
              </p>
            }
            aria-label={`Apply to past mail…, ${called}`}
            run={apply}
          >
            Apply to past mail…
          </ConfirmButton>
        )}
      </div>
    </li>
  );
}

const PLACES = [
  { value: "", text: "leave it in the inbox" },
  { value: "archive", text: "keep it out of the inbox" },
  { value: "trash", text: "move it to trash" },
];

function RuleForm({
  id,
  rule,
  rules,
  position,
  forwardOutside,
  done,
}: {
  /** Id of the mailbox. */
  id: string;
  rule: GivenRule;
  rules: readonly GivenRule[];
  /** Position in the list where the rule stands, or will. */
  position: number;
  forwardOutside: boolean;
  /** Undefined for a new rule. */
  done?: () => void;
}) {
  const save = useChange(api.setOwnRules, {
    key: RULES,
    success: done ? "Rule changed" : "Rule made",
    atForm: true,
  });
  const [match, setMatch] = useState(rule.match);
  const of = (type: GivenRule["actions"][number]["type"]) => rule.actions.filter((action) => action.type === type);
  const [label, forward] = [of("label")[0]?.label ?? "", of("forward")[0]?.to ?? ""];

  function submit({ text, all }: Given): void {
    const where = text<"" | "archive" | "trash">("where");
    const [newLabel, to, name] = [text("label").trim(), text("to").trim(), text("name").trim()];
    const next: GivenRule = {
      ...(name !== "" && { name }),
      match: text("match"),
      enabled: rule.enabled ?? true,
      actions: [
        ...(newLabel === "" ? [] : [{ type: "label" as const, label: newLabel }]),
        ...of("label").slice(1),
        ...(all("star").length > 0 ? [{ type: "star" as const }] : []),
        ...(where === "" ? [] : [{ type: where }]),
        ...(to === "" ? [] : [{ type: "forward" as const, to }]),
        ...of("forward").slice(1),
      ],
    };
    save.mutate({ id, rules: rules.toSpliced(position, done ? 1 : 0, next) }, { onSuccess: () => done?.() });
  }

  return (
    <Form sending={save} submit={submit} className="space-y-4">
      <div>
        <Field
          label="Mail that matches this search"
          name="match"
          value={match}
          onChange={({ target: { value } }) => setMatch(value)}
          placeholder="from:news@example.org"
          autoComplete="off"
          spellCheck={false}
          maxLength={500}
          required
        />
        <Matches id={id} match={match.trim()} />
      </div>
      <div className="grid gap-4 md:grid-cols-2">
        <Field label="Label it" name="label" defaultValue={label} maxLength={60} autoComplete="off" />
        <Select
          label="Its place"
          name="where"
          choices={PLACES}
          defaultValue={of("archive")[0]?.type ?? of("trash")[0]?.type ?? ""}
        />
        <Field
          label="Forward it to"
          name="to"
          type="email"
          defaultValue={forward}
          autoComplete="off"
          hint={
            forwardOutside
              ? "Outside the workspace, you are asked for your password, and the mailbox's owner is told by mail."
              : "An address in the verified domains of the workspace."
          }
        />
        <Field
          label="Name, if you like"
          name="name"
          defaultValue={rule.name ?? ""}
          maxLength={100}
          autoComplete="off"
        />
      </div>
      <Checkbox label="Star it" name="star" value="star" defaultChecked={of("star").length > 0} />
      <SaveRow action={done ? "Save rule" : "Make rule"} sending={save} cancel={done} atEnd />
    </Form>
  );
}

/** How much past mail a query finds, with a way to see it. */
function Matches({ id, match }: { id: string; match: string }) {
  const asked = useDeferredValue(match);
  const { data, error } = useQuery({ ...ruleMatchesQuery(id, asked), placeholderData: keepPreviousData });
  let shown: ReactNode = "What it finds in past mail is shown here.";
  if (match !== "" && error) shown = error.message;
  else if (match !== "" && data) {
    shown = (
      <>
        {data.more
          ? "More than 1,000 conversations match"
          : `${formatCount(data.threads, "conversation")} of past mail match`}
        .{" "}
        <Link
          to="/mail/$folder"
          params={{ folder: "all" }}
          search={{ mailbox: id, q: match }}
          className="text-accent underline"
        >
          Show them
        </Link>
        {data.notes.map((note) => (
          <span key={note} className="block">
            {note}
          </span>
        ))}
      </>
    );
  }
  return (
    <p role="status" className="mt-1 text-sm text-muted">
      {shown}
    </p>
  );
}

function OutOfOffice({ id, address }: { id: string; address: string }) {
  const query = useQuery(absenceQuery(id));
  const save = useChange(api.setOwnAbsence, { key: RULES, success: "Out-of-office set", atForm: true });
  const end = useChange(api.endOwnAbsence, { key: RULES, success: "Out-of-office ended" });
  if (query.data === undefined) return <NotLoaded query={query} what="the out-of-office" />;
  const absence = query.data;
  const { initial } = localTimeInputBounds();
  const iso = (text: string): string => new Date(text).toISOString();
  return (
    <Panel
      title="Out of office"
      about={`People who write to ${address} are told once a week each, and nobody who sends to a list or is a program.`}
      {...(absence && {
        action: (
          <Button disabled={end.isPending} onClick={() => end.mutate({ id })}>
            End it
          </Button>
        ),
      })}
    >
      <Form
        key={JSON.stringify(absence)}
        sending={save}
        className="space-y-4"
        submit={({ text }) =>
          save.mutate({
            id,
            from: iso(text("from")),
            until: iso(text("until")),
            ...(text("subject") !== "" && { subject: text("subject") }),
            text: text("text"),
          })
        }
      >
        <div className="grid gap-4 md:grid-cols-2">
          <Field
            label="From"
            name="from"
            type="datetime-local"
            defaultValue={absence ? toLocalTimeInput(absence.from) : initial}
            required
          />
          <Field
            label="Until"
            name="until"
            type="datetime-local"
            defaultValue={absence ? toLocalTimeInput(absence.until) : ""}
            required
          />
        </div>
        <Field
          label="Subject"
          hint="Empty for “Auto:” and the subject of their message."
          name="subject"
          defaultValue={absence?.subject ?? ""}
          maxLength={200}
          autoComplete="off"
        />
        <Area label="Text" name="text" defaultValue={absence?.text ?? ""} maxLength={10_000} rows={5} required />
        <SaveRow action={absence ? "Save" : "Set out-of-office"} sending={save} atEnd />
      </Form>
    </Panel>
  );
}
