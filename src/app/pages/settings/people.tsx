/** The people of the workspace, and their roles. */
import { useQuery } from "@tanstack/react-query";
import { UserPlus } from "lucide-react";
import { counted } from "../../lib/format.ts";
import { meQuery, useChange } from "../../lib/queries.ts";
import { type PersonView, peopleQuery, ROLES, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { ConfirmButton } from "../../parts/dialog.tsx";
import { Checkbox, Field, PASSWORD_HINT, Select } from "../../parts/fields.tsx";
import { FormDialog, LineForm } from "../../parts/form.tsx";
import { Avatar } from "../../parts/graphics.tsx";
import { NotLoaded } from "../../parts/notice.tsx";
import { Badge, Filtered, Panel, Rows, SettingsPage } from "../../parts/settings.tsx";

export function PeoplePage() {
  const list = useQuery(peopleQuery);
  const { data: me } = useQuery(meQuery);
  if (!list.data) return <NotLoaded query={list} what="people" />;
  const people = list.data;
  return (
    <SettingsPage
      title="People"
      intro="Owners and admins can open every mailbox and these settings; members can open their own mailboxes and those shared with them."
      action={<NewPerson />}
    >
      <Panel title={counted(people.length, "person", "people")}>
        <Filtered of={people} label="Find a person" textOf={({ name, email, role }) => `${name} ${email} ${role}`}>
          {(shown) => (
            <Rows label="People">
              {shown.map((person) => (
                <Person key={person.id} person={person} own={person.id === me?.id} />
              ))}
            </Rows>
          )}
        </Filtered>
      </Panel>
    </SettingsPage>
  );
}

function NewPerson() {
  const add = useChange(workspaceApi.addPerson, { key: WORKSPACE, success: "Added", atForm: true });
  return (
    <FormDialog
      label={
        <>
          <UserPlus size={16} aria-hidden /> Add a person
        </>
      }
      title="Add a person"
      action="Add person"
      sending={add}
      submit={({ text }, done) =>
        add.mutate(
          {
            email: text("email"),
            name: text("name"),
            role: text("role"),
            mailbox: text("own") !== "",
            ...(text("password") !== "" && { password: text("password") }),
          },
          { onSuccess: done },
        )
      }
    >
      <Field label="Name" name="name" autoComplete="off" required />
      <Field label="Email address" name="email" type="email" autoComplete="off" required />
      <Checkbox label="With a mailbox of that address" name="own" defaultChecked />
      <Select label="Role" name="role" choices={ROLES} />
      <Field
        label="First password"
        name="password"
        type="password"
        autoComplete="new-password"
        hint={`${PASSWORD_HINT} Without one they cannot sign in until you give them one.`}
      />
    </FormDialog>
  );
}

const CONSEQUENCES = "They are signed out everywhere, and their app passwords and API keys end. They are told by mail.";

function Person({
  person: { id, email, name, role, canSignIn, secondFactor },
  own,
}: {
  person: PersonView;
  own: boolean;
}) {
  const change = useChange(workspaceApi.changePerson, { key: WORKSPACE, success: "Changed" });
  const reset = useChange(workspaceApi.resetSecondFactor, {
    key: WORKSPACE,
    success: "Two-step sign-in reset",
  });
  const setPassword = useChange(workspaceApi.setPassword, { key: WORKSPACE, success: "Password set", atForm: true });
  const remove = useChange(workspaceApi.removePerson, { key: WORKSPACE, success: "Removed" });
  return (
    <li>
      <div className="flex items-center gap-3 max-md:flex-wrap">
        <Avatar of={{ name, email }} />
        <div className="min-w-0 grow">
          <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <span className="font-medium wrap-anywhere">{name}</span>
            {own && <Badge tone="quiet">you</Badge>}
            {!canSignIn && <Badge tone="warn">no password</Badge>}
            {secondFactor && <Badge tone="good">two-step</Badge>}
          </p>
          <p className="text-sm break-all text-muted">{email}</p>
        </div>
        {own ? (
          <span className="text-sm text-muted max-md:w-full max-md:pl-11">{role}; another admin changes your role</span>
        ) : (
          <div className="flex items-center gap-2 max-md:w-full max-md:pl-11">
            <Select
              label={`Role of ${name}`}
              hidden
              choices={ROLES}
              value={role}
              disabled={change.isPending}
              onChange={(event) => change.mutate({ id, role: event.target.value as typeof role })}
            />
            {secondFactor && (
              <ConfirmButton
                question={`Reset two-step sign-in of ${name}?`}
                action="Reset two-step sign-in"
                consequences={
                  <p>
                    They are signed out everywhere, their app passwords end, and their password alone signs them in.
                  </p>
                }
                aria-label={`Reset two-step sign-in of ${name}…`}
                disabled={reset.isPending}
                run={() => reset.mutate(id)}
                className="h-9"
              >
                Reset two-step…
              </ConfirmButton>
            )}
            <ConfirmButton
              question={`Remove ${name}?`}
              action={`Remove ${name}`}
              consequences={
                <>
                  <p>They can no longer sign in, and their sessions and app passwords end at once.</p>
                  <p>Their API keys and shares are removed. Their mailboxes stay, with all mail, without an owner.</p>
                </>
              }
              aria-label={`Remove ${name}…`}
              disabled={remove.isPending}
              run={() => remove.mutate(id)}
              className="h-9"
            >
              Remove…
            </ConfirmButton>
          </div>
        )}
      </div>
      {!own && (
        <details className="mt-2 pl-11 text-sm">
          <summary className="inline-block text-accent">Give {name} another password</summary>
          <div className="mt-2">
            <LineForm
              action="Set password"
              sending={setPassword}
              submit={({ text, empty }) =>
                setPassword.mutate(
                  { id, password: text("password"), keepKeys: text("keepKeys") !== "" },
                  { onSuccess: empty },
                )
              }
            >
              <Field
                label={`New password of ${name}`}
                name="password"
                type="password"
                autoComplete="new-password"
                hint={canSignIn ? `${PASSWORD_HINT} ${CONSEQUENCES}` : PASSWORD_HINT}
                required
              />
              {canSignIn && <Checkbox label="Keep their API keys" name="keepKeys" />}
            </LineForm>
          </div>
        </details>
      )}
    </li>
  );
}
