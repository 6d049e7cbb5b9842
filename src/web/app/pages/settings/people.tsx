/** Who is in the workspace, and as what. */
import { useQuery } from "@tanstack/react-query";
import { meQuery } from "../../lib/queries.ts";
import { useChange } from "../../lib/settings.ts";
import { peopleQuery, ROLES, type UserView, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Select } from "../../parts/select.tsx";
import { Badge, Panel, SettingsPage } from "../../parts/settings.tsx";

export function PeoplePage() {
  const list = useQuery(peopleQuery);
  const { data: me } = useQuery(meQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="people" />;
  return (
    <SettingsPage
      title="People"
      intro="Owners and admins reach every mailbox; members their own and those shared with them."
    >
      <NewPerson />
      <Panel title="In this workspace">
        <ul aria-label="People" className="divide-y divide-line">
          {list.data.people.map((person) => (
            <Person key={person.id} person={person} own={person.id === me?.id} />
          ))}
        </ul>
      </Panel>
    </SettingsPage>
  );
}

function NewPerson() {
  const add = useChange(workspaceApi.addPerson, { key: WORKSPACE, told: "Added" });
  return (
    <Panel title="New person">
      <LineForm
        action="Add person"
        primary
        busy={add.isPending}
        submit={(text, empty) =>
          add.mutate(
            {
              ...{ email: text("email"), name: text("name"), role: text("role"), ownMailbox: text("own") !== "" },
              ...(text("password") !== "" && { password: text("password") }),
            },
            { onSuccess: empty },
          )
        }
      >
        <Field label="Name" name="name" autoComplete="off" required />
        <Field label="Email address" name="email" type="email" autoComplete="off" required />
        <Field label="First password" name="password" type="password" autoComplete="new-password" />
        <Select label="Role" name="role" choices={ROLES} />
        <label className="flex h-9 items-center gap-2 text-sm">
          <input type="checkbox" name="own" defaultChecked className="size-4 accent-accent" />
          With a mailbox
        </label>
      </LineForm>
    </Panel>
  );
}

function Person({
  person: { id, email, name, role, canSignIn, secondFactor },
  own,
}: {
  person: UserView;
  own: boolean;
}) {
  const change = useChange(workspaceApi.changePerson, { key: WORKSPACE, told: "Changed" });
  const reset = useChange(workspaceApi.resetSecondFactor, {
    key: WORKSPACE,
    told: "Their password alone signs them in",
  });
  const remove = useChange(workspaceApi.removePerson, { key: WORKSPACE, told: "Removed" });
  return (
    <li className="py-3 first:pt-0 last:pb-0">
      <div className="flex items-center gap-3 max-md:flex-wrap">
        <div className="min-w-0 grow text-sm">
          <p className="flex flex-wrap items-center gap-2">
            <span className="font-medium">{name}</span>
            {own && <Badge tone="quiet">you</Badge>}
            {!canSignIn && <Badge tone="bad">no password</Badge>}
            {secondFactor && <Badge tone="good">two-step</Badge>}
          </p>
          <p className="mt-0.5 text-xs break-all text-muted">{email}</p>
        </div>
        <Select
          label={`Role of ${name}`}
          hidden
          choices={ROLES}
          value={role}
          disabled={change.isPending}
          onChange={(event) => change.mutate({ id, role: event.target.value })}
        />
        {secondFactor && !own && (
          <Button
            aria-label={`Reset two-step sign-in of ${name}`}
            disabled={reset.isPending}
            onClick={() =>
              confirm(
                `Reset two-step sign-in of ${name}? They are signed out, and their password alone signs them in.`,
              ) && reset.mutate(id)
            }
          >
            Reset two-step
          </Button>
        )}
        <Button
          kind="danger"
          aria-label={`Remove ${name}`}
          disabled={remove.isPending}
          onClick={() =>
            confirm(`Remove ${name}? Their API keys and shares go; their mailboxes stay, without an owner.`) &&
            remove.mutate(id)
          }
        >
          Remove
        </Button>
      </div>
      {!own && (
        <details className="mt-2 text-sm">
          <summary className="text-muted">Give {name} another password</summary>
          <div className="mt-2">
            <LineForm
              action="Set password"
              busy={change.isPending}
              submit={(text, empty) => change.mutate({ id, password: text("password") }, { onSuccess: empty })}
            >
              <Field
                label={`New password of ${name}`}
                name="password"
                type="password"
                autoComplete="new-password"
                required
              />
            </LineForm>
          </div>
        </details>
      )}
    </li>
  );
}
