/** API keys: making one, which is shown once, and revoking. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useChange } from "../../lib/settings.ts";
import { developerApi, KEYS, type KeyView, keysQuery } from "../../lib/settings-developers.ts";
import { fullTime } from "../../lib/time.ts";
import { Button } from "../../parts/button.tsx";
import { ChoiceBoxes } from "../../parts/choice-boxes.tsx";
import { Field } from "../../parts/field.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, CopyValue, Panel, SettingsPage } from "../../parts/settings.tsx";

export function KeysPage() {
  const list = useQuery(keysQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="API keys" />;
  const { keys, scopes } = list.data;
  return (
    <SettingsPage
      title="API keys"
      intro={
        <>
          A key acts for the person who created it and reaches the mailboxes they reach. What it can do, with commands
          to copy, stands in the{" "}
          <a href="/api/docs" className="text-accent underline underline-offset-2">
            API reference
          </a>
          .
        </>
      }
    >
      <NewKey scopes={scopes} />
      <Panel title="Keys">
        {keys.length === 0 && <p className="text-sm text-muted">There is none yet.</p>}
        <ul aria-label="API keys" className="divide-y divide-line">
          {keys.map((key) => (
            <KeyRow key={key.id} of={key} />
          ))}
        </ul>
      </Panel>
    </SettingsPage>
  );
}

function NewKey({ scopes }: { scopes: readonly string[] }) {
  const create = useChange(developerApi.createKey, { key: KEYS });
  const [made, setMade] = useState<string>();
  function submit(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    create.mutate(
      { name: String(given.get("name")), scopes: given.getAll("scopes").map(String) },
      {
        onSuccess: ({ key }) => {
          setMade(key);
          form.reset();
        },
      },
    );
  }
  return (
    <Panel title="New key">
      <form onSubmit={submit} className="space-y-3">
        <div className="max-w-96">
          <Field label="Name" name="name" placeholder="What uses it" required />
        </div>
        <ChoiceBoxes legend="It may" name="scopes" choices={scopes} />
        <Button kind="primary" type="submit" disabled={create.isPending}>
          Create key
        </Button>
      </form>
      {made !== undefined && (
        <div role="status" className="mt-4 space-y-2 rounded-lg bg-notice p-3">
          <p className="text-sm">Copy this key now: it is not shown again.</p>
          <CopyValue label="New API key" value={made} />
        </div>
      )}
    </Panel>
  );
}

function KeyRow({ of: { id, name, hint, user, scopes, createdAt, lastUsedAt, revokedAt } }: { of: KeyView }) {
  const revoke = useChange(developerApi.revokeKey, { key: KEYS, told: "Key revoked" });
  return (
    <li className="flex items-center gap-3 py-3 first:pt-0 last:pb-0 max-md:flex-wrap">
      <div className="min-w-0 grow text-sm">
        <p className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{name}</span>
          <code className="text-xs text-muted">{hint}…</code>
          {scopes.map((scope) => (
            <Badge key={scope} tone="quiet">
              {scope}
            </Badge>
          ))}
          {revokedAt !== null && <Badge tone="bad">revoked</Badge>}
        </p>
        <p className="mt-0.5 text-xs text-muted">
          {user}, created {fullTime(createdAt)},{" "}
          {lastUsedAt === null ? "never used" : `last used ${fullTime(lastUsedAt)}`}
        </p>
      </div>
      {revokedAt === null && (
        <Button
          kind="danger"
          aria-label={`Revoke ${name}`}
          disabled={revoke.isPending}
          onClick={() => confirm(`Revoke ${name}? What uses it stops working at once.`) && revoke.mutate(id)}
        >
          Revoke
        </Button>
      )}
    </li>
  );
}
