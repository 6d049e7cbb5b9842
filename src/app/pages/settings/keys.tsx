/** API keys: makes one, which is shown once, and revokes them. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useChange } from "../../lib/queries.ts";
import { developerApi, KEYS, type KeyView, keysQuery } from "../../lib/settings-developers.ts";
import { fullTime } from "../../lib/time.ts";
import { Button } from "../../parts/button.tsx";
import { ConfirmButton } from "../../parts/dialog.tsx";
import { Checkboxes, Field } from "../../parts/fields.tsx";
import { Form } from "../../parts/form.tsx";
import { NotLoaded } from "../../parts/notice.tsx";
import { Badge, CopyValue, Facts, Filtered, Nothing, Panel, Rows, SettingsPage } from "../../parts/settings.tsx";

const MEANING = {
  read: "see mailboxes, conversations, messages and attachments, and search",
  send: "send and reply",
  write: "move, star and label, and draft replies for a person to send",
  admin: "administer the workspace: mailboxes, people, domains, keys and webhooks",
};

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
      <Panel title="Keys">
        {keys.length === 0 && <Nothing>There is none yet.</Nothing>}
        <Filtered of={keys} label="Find a key" textOf={({ name, user, hint }) => `${name} ${user} ${hint}`}>
          {(shown) => (
            <Rows label="API keys">
              {shown.map((key) => (
                <KeyRow key={key.id} of={key} />
              ))}
            </Rows>
          )}
        </Filtered>
      </Panel>
    </SettingsPage>
  );
}

function NewKey() {
  const create = useChange(developerApi.createKey, { key: KEYS, atForm: true });
  const [made, setMade] = useState<string>();
  return (
    <Panel title="New key" about="Give each program one of its own, with no more than it needs.">
      <Form
        sending={create}
        submit={({ text, all, empty }) =>
          create.mutate(
            { name: text("name"), scopes: all("scopes") },
            {
              onSuccess: ({ key }) => {
                setMade(key);
                empty();
              },
            },
          )
        }
        className="space-y-4"
      >
        <div className="max-w-96">
          <Field label="Name" name="name" placeholder="The program that uses it" autoComplete="off" required />
        </div>
        <Checkboxes legend="It may" name="scopes" choices={Object.keys(MEANING)} meaning={MEANING} />
        <Button kind="primary" type="submit" disabled={create.isPending}>
          Create key
        </Button>
      </Form>
      {made !== undefined && (
        <div role="status" className="mt-4 space-y-2 rounded-lg bg-notice p-4">
          <p className="font-medium">Copy this key now: it is not shown again.</p>
          <CopyValue label="New API key" value={made} />
        </div>
      )}
    </Panel>
  );
}

function KeyRow({ of: { id, name, hint, user, scopes, createdAt, lastUsedAt, revokedAt } }: { of: KeyView }) {
  const revoke = useChange(developerApi.revokeKey, { key: KEYS, success: "Key revoked" });
  return (
    <li className={revokedAt === null ? "" : "bg-panel"}>
      <Facts
        title={
          <>
            <span>{name}</span>
            <code className="text-xs font-normal text-muted">{hint}…</code>
            {scopes.map((scope) => (
              <Badge key={scope} tone="quiet">
                {scope}
              </Badge>
            ))}
            {revokedAt !== null && <Badge tone="bad">revoked</Badge>}
          </>
        }
        facts={
          <>
            {user}, created {fullTime(createdAt)},{" "}
            {lastUsedAt === null ? "never used" : `last used ${fullTime(lastUsedAt)}`}
          </>
        }
      >
        {revokedAt === null && (
          <ConfirmButton
            question={`Revoke ${name}?`}
            action="Revoke key"
            consequences={
              <p>Programs that use it are refused at once. A revoked key cannot be brought back: make another.</p>
            }
            aria-label={`Revoke ${name}…`}
            disabled={revoke.isPending}
            run={() => revoke.mutate(id)}
          >
            Revoke…
          </ConfirmButton>
        )}
      </Facts>
    </li>
  );
}
