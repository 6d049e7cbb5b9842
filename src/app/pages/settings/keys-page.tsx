/** API keys: the list, a new one for a purpose, which is shown once, and a page for each. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../../lib/api-client.ts";
import {
  draftToPolicy,
  type Policy,
  PURPOSES,
  type Purpose,
  policyToDraft,
  SCOPE_MEANING,
} from "../../lib/policy-words.ts";
import { mailboxesQuery, useChange } from "../../lib/queries.ts";
import { fullTime, msUntil } from "../../lib/time-format.ts";
import { toast } from "../../lib/toast.ts";
import { ItemPage } from "../../parts/settings/item-page.tsx";
import { KeyJournal } from "../../parts/settings/key-journal.tsx";
import { PolicyFields, PolicySentences } from "../../parts/settings/policy-fields.tsx";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { Badge, Facts, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { ShownOnce } from "../../parts/settings/shown-once.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Checkboxes, Field } from "../../parts/ui/fields.tsx";
import { Form, LineForm } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { KEYS, type KeyView, keyQuery, keysQuery } from "./settings-developers.ts";

export function KeysPage() {
  const list = useQuery(keysQuery);
  if (!list.data) return <NotLoaded query={list} what="API keys" />;
  const keys = list.data;
  return (
    <SettingsPage
      title="API keys"
      intro={
        <>
          A key acts for the person who made it and reaches the mailboxes they reach. The{" "}
          <a href="/api/docs" className="text-accent underline underline-offset-2">
            API reference
          </a>{" "}
          says what it can do, with commands to copy.
        </>
      }
    >
      <NewKey />
      <ListPanel
        of={keys}
        title="Keys"
        label="API keys"
        empty="None yet."
        search={{ label: "Find a key", text: ({ name, user, hint }) => `${name} ${user} ${hint}` }}
      >
        {(key) => <KeyRow key={key.id} of={key} />}
      </ListPanel>
    </SettingsPage>
  );
}

/** Asks what the key is for, and then proposes what that takes. */
function NewKey() {
  const [purpose, setPurpose] = useState<Purpose>();
  const [made, setMade] = useState<string>();
  return (
    <Panel title="New key" about="Give each program its own key, with no more access than it needs.">
      <fieldset>
        <legend className="field-label">What is it for?</legend>
        <div className="grid gap-2 sm:grid-cols-2">
          {PURPOSES.map((one) => (
            <label
              key={one.id}
              className="flex items-start gap-2 rounded-lg border border-line px-3 py-2 text-sm hover:bg-hover has-checked:border-accent has-checked:bg-chosen"
            >
              <input
                type="radio"
                name="purpose"
                checked={one === purpose}
                onChange={() => setPurpose(one)}
                className="mt-0.5 size-4 shrink-0 accent-accent"
              />
              <span>
                <span className="font-medium">{one.name}</span>
                <span className="block text-xs text-muted">{one.about}</span>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
      {purpose && (
        <NewKeyForm
          key={purpose.id}
          purpose={purpose}
          made={(key) => {
            setMade(key);
            setPurpose(undefined);
          }}
        />
      )}
      {made !== undefined && (
        <div role="status" className="mt-4">
          <ShownOnce title="Copy this key now: it is not shown again." label="New API key" value={made} />
        </div>
      )}
    </Panel>
  );
}

function NewKeyForm({ purpose, made }: { purpose: Purpose; made: (key: string) => void }) {
  const create = useChange(api.createKey, { key: KEYS, atForm: true });
  const [draft, setDraft] = useState(() => policyToDraft(purpose.policy));
  return (
    <Form
      sending={create}
      submit={({ text, all }) =>
        create.mutate(
          { name: text("name"), scopes: all("scopes"), policy: draftToPolicy(draft) },
          { onSuccess: ({ key = "" }) => made(key) },
        )
      }
      className="mt-5 space-y-4"
    >
      <div className="max-w-96">
        <Field label="Name" name="name" placeholder="The program that uses it" autoComplete="off" required />
      </div>
      <Checkboxes
        legend="Permissions"
        name="scopes"
        choices={Object.keys(SCOPE_MEANING)}
        chosen={purpose.scopes}
        meaning={SCOPE_MEANING}
      />
      <PolicyFields draft={draft} change={(part) => setDraft({ ...draft, ...part })} />
      <SaveRow action="Create key" sending={create} />
    </Form>
  );
}

/** Pauses a key, or resumes it. */
function PauseButton({ of: { id, name, paused } }: { of: KeyView }) {
  const pause = useChange(api.changeKey, { key: KEYS });
  return (
    <Button
      aria-label={`${paused ? "Resume" : "Pause"} ${name}`}
      disabled={pause.isPending}
      onClick={() => pause.mutate({ id, paused: !paused })}
    >
      {paused ? "Resume" : "Pause"}
    </Button>
  );
}

/** Tells what a revoked key made and what goes on; at most three of these things are named. */
function goingOn(made: readonly { kind: string; name: string }[]): string {
  const named = made.slice(0, 3).map(({ kind, name }) => `the ${kind} ${name}`);
  const more = made.length > 3 ? ` and ${made.length - 3} more` : "";
  return `Key revoked. What it made goes on: ${named.join(", ")}${more}. End what you do not know.`;
}
const GOING_ON_MS = 30_000;

function RevokeButton({ of: { id, name } }: { of: KeyView }) {
  const revoke = useChange(api.revokeKey, { key: KEYS, success: "Key revoked" });
  return (
    <ConfirmButton
      question={`Revoke ${name}?`}
      action="Revoke key"
      consequences={<p>Programs that use it are refused at once. A revoked key cannot be restored: create another.</p>}
      aria-label={`Revoke ${name}…`}
      disabled={revoke.isPending}
      run={() =>
        revoke.mutate(
          { id },
          {
            onSuccess: ({ goesOn }) => goesOn && toast({ text: goingOn(goesOn), shownMs: GOING_ON_MS }),
          },
        )
      }
    >
      Revoke…
    </ConfirmButton>
  );
}

/** Badges of a key: its scopes, and whether it works. */
function KeyBadges({ of: { scopes, revokedAt, paused, policy } }: { of: KeyView }) {
  const hasExpired = policy.expiresAt !== undefined && msUntil(policy.expiresAt) <= 0;
  return (
    <>
      {scopes.map((scope) => (
        <Badge key={scope} tone="quiet">
          {scope}
        </Badge>
      ))}
      {revokedAt !== null && <Badge tone="bad">revoked</Badge>}
      {revokedAt === null && hasExpired && <Badge tone="bad">expired</Badge>}
      {revokedAt === null && paused && <Badge tone="warn">paused</Badge>}
    </>
  );
}

const usedAs = ({ user, createdAt, lastUsedAt }: KeyView): string =>
  `${user}, created ${fullTime(createdAt)}, ${lastUsedAt === null ? "never used" : `last used ${fullTime(lastUsedAt)}`}`;

/** Tells which program a grant is for. */
const grantText = ({ name, host }: NonNullable<KeyView["client"]>): string =>
  `Given over OAuth to a program that calls itself “${name}”, of ${host}`;

function KeyRow({ of: key }: { of: KeyView }) {
  const { id, name, hint, revokedAt, policy, client } = key;
  return (
    <li className={revokedAt === null ? "" : "bg-panel"}>
      <Facts
        title={
          <>
            <Link to="/settings/keys/$id" params={{ id }} className="underline-offset-2 hover:underline">
              {name}
            </Link>
            {client === null && <code className="text-xs font-normal text-muted">{hint}…</code>}
            <KeyBadges of={key} />
          </>
        }
        facts={
          <>
            <p>{usedAs(key)}</p>
            {client && <p>{grantText(client)}</p>}
            {Object.keys(policy).length > 0 && <PolicySentences of={policy} />}
          </>
        }
      >
        {revokedAt === null && (
          <>
            <PauseButton of={key} />
            <RevokeButton of={key} />
          </>
        )}
      </Facts>
    </li>
  );
}

/** A key with its policy and its journal. */
export function KeyPage() {
  const { id } = useParams({ from: "/settings/admin/keys/$id" });
  const query = useQuery(keyQuery(id));
  const mailboxes = useQuery(mailboxesQuery);
  if (!query.data) return <NotLoaded query={query} what="the API key" />;
  if (!mailboxes.data) return <NotLoaded query={mailboxes} what="mailboxes" />;
  const key = query.data;
  const { name, hint, policy, revokedAt, client } = key;
  return (
    <ItemPage
      list="/settings/keys"
      all="All API keys"
      title={name}
      intro={usedAs(key)}
      action={
        revokedAt === null && (
          <div className="flex gap-2">
            <PauseButton of={key} />
            <RevokeButton of={key} />
          </div>
        )
      }
    >
      <p className="-mt-3 flex flex-wrap items-center gap-2">
        {client === null && <code className="text-xs text-muted">{hint}…</code>}
        <KeyBadges of={key} />
      </p>
      {client && <p>{grantText(client)}</p>}
      {revokedAt === null ? (
        <>
          <Panel title="Name">
            <Rename of={key} />
          </Panel>
          <Panel
            title="Policy"
            about="Restricts the key further, from the next request on. You can restrict somebody else’s key more, but not less."
          >
            <ChangeablePolicy of={key} mailboxes={mailboxes.data} />
          </Panel>
        </>
      ) : (
        <Panel title="Policy">
          <PolicySentences of={policy} />
        </Panel>
      )}
      <KeyJournal of={key} />
    </ItemPage>
  );
}

function Rename({ of: { id, name } }: { of: KeyView }) {
  const rename = useChange(api.changeKey, { key: KEYS, success: "Name changed", atForm: true });
  return (
    <LineForm action="Save name" sending={rename} submit={({ text }) => rename.mutate({ id, name: text("name") })}>
      <Field label="Name" name="name" defaultValue={name} autoComplete="off" required />
    </LineForm>
  );
}

interface PolicyProps {
  of: KeyView;
  mailboxes: readonly { id: string; address: string }[];
}

/** The policy as sentences, or in a form. */
function ChangeablePolicy(props: PolicyProps) {
  const [changes, setChanges] = useState(false);
  if (changes) return <PolicyForm {...props} close={() => setChanges(false)} />;
  return (
    <>
      <PolicySentences of={props.of.policy} />
      <Button className="mt-4" onClick={() => setChanges(true)}>
        Change policy
      </Button>
    </>
  );
}

function PolicyForm({ of: { id, policy }, mailboxes, close }: PolicyProps & { close: () => void }) {
  const save = useChange((changed: Policy) => api.changeKey({ id, policy: changed }), {
    key: KEYS,
    success: "Policy changed",
    atForm: true,
  });
  const findMailboxId = (address: string) => mailboxes.find((mailbox) => mailbox.address === address)?.id;
  const [draft, setDraft] = useState(() => policyToDraft(policy, findMailboxId));
  return (
    <Form sending={save} submit={() => save.mutate(draftToPolicy(draft), { onSuccess: close })} className="space-y-4">
      <PolicyFields draft={draft} change={(part) => setDraft({ ...draft, ...part })} />
      <SaveRow action="Save policy" sending={save} cancel={close} />
    </Form>
  );
}
