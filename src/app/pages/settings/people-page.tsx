/** The people of the workspace, and their roles. */
import { useQuery } from "@tanstack/react-query";
import { UserPlus } from "lucide-react";
import { useState } from "react";
import { api, type Input } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { meQuery, useChange, WORKSPACE } from "../../lib/queries.ts";
import { dayAndTime } from "../../lib/time-format.ts";
import { AddDialog } from "../../parts/settings/add-dialog.tsx";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Badge, More, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { ShownOnce } from "../../parts/settings/shown-once.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Checkbox, Field, NewPassword, Select } from "../../parts/ui/fields.tsx";
import { LineForm } from "../../parts/ui/form.tsx";
import { Avatar } from "../../parts/ui/graphics.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { type LockedView, type PersonView, peopleQuery, ROLES } from "./settings-workspace.ts";

/** News at the top of the page: a link that was made, or the access that a lock ended. */
type Said = { link: string; expiresAt: string; name: string } | { locked: LockedView };

export function PeoplePage() {
  const list = useQuery(peopleQuery);
  const [said, say] = useState<Said>();
  const { data: me } = useQuery(meQuery);
  if (!list.data) return <NotLoaded query={list} what="people" />;
  const people = list.data;
  return (
    <SettingsPage
      title="People"
      intro="Owners and admins can open every mailbox and these settings; members can open their own mailboxes and those shared with them."
      action={<NewPerson say={say} />}
    >
      {said && <div role="status">{"link" in said ? <MadeLink {...said} /> : <Ended locked={said.locked} />}</div>}
      <ListPanel
        of={people}
        title={formatCount(people.length, "person", "people")}
        label="People"
        search={{ label: "Find a person", text: ({ name, email, role }) => `${name} ${email} ${role}` }}
      >
        {(person) => <Person key={person.id} person={person} own={person.id === me?.id} say={say} />}
      </ListPanel>
    </SettingsPage>
  );
}

function MadeLink({ link, expiresAt, name }: { link: string; expiresAt: string; name: string }) {
  return (
    <ShownOnce title={`Copy this link for ${name} now: it is not shown again.`} label={`Link for ${name}`} value={link}>
      {name} chooses a password with it, once, until {dayAndTime(expiresAt)}. Whoever has it can, so give it to {name}{" "}
      alone.
    </ShownOnce>
  );
}

function Ended({ locked: { name, ended, goesOn = [] } }: { locked: LockedView }) {
  const named = (list: readonly { name: string }[]) => list.map(({ name }) => name);
  const kinds: [kind: string, what: string[]][] = [
    ["Signed out", ended.sessions.map(({ browser }) => browser)],
    ["App passwords", named(ended.appPasswords)],
    ["API keys", named(ended.keys)],
    ["Programs", named(ended.grants)],
    ["Forwarding", ended.forwarding.map(({ mailbox, to }) => `${mailbox} to ${to.join(", ")}`)],
  ];
  const found = kinds.filter(([, what]) => what.length > 0);
  return (
    <div className="space-y-2 rounded-lg bg-notice p-4">
      <p className="font-medium">
        {name} is locked. {found.length === 0 ? "Nothing else had to end." : "This has ended:"}
      </p>
      <ul className="list-disc pl-5 text-sm" aria-label={`Ended with the lock of ${name}`}>
        {found.map(([kind, what]) => (
          <li key={kind} className="wrap-anywhere">
            {kind}: {what.join("; ")}
          </li>
        ))}
      </ul>
      {goesOn.length > 0 && (
        <p className="text-sm wrap-anywhere">
          What their keys made goes on: {goesOn.map(({ kind, name }) => `the ${kind} ${name}`).join(", ")}. End what you
          do not know.
        </p>
      )}
    </div>
  );
}

/** Makes a link and shows it. */
function useLink(say: (said: Said) => void) {
  const make = useChange(api.makePasswordLink, { key: WORKSPACE });
  const makeFor = ({ id, name }: Pick<PersonView, "id" | "name">) =>
    make.mutate({ id }, { onSuccess: (made) => say({ ...made, name }) });
  return { makeFor, isPending: make.isPending };
}

/** Adds a person, who chooses a password by a link if none is given. */
const addPerson = ({ password, ...person }: Input<"addPerson"> & { password?: string }) =>
  password === undefined ? api.addPerson(person) : api.addPersonWithPassword({ ...person, password });

function NewPerson({ say }: { say(said: Said): void }) {
  const add = useChange(addPerson, { key: WORKSPACE, success: "Added", atForm: true });
  const link = useLink(say);
  return (
    <AddDialog
      title="Add a person"
      icon={UserPlus}
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
          {
            onSuccess(person) {
              done();
              if (!person.canSignIn) link.makeFor(person);
            },
          },
        )
      }
    >
      <Field label="Name" name="name" autoComplete="off" required />
      <Field label="Email address" name="email" type="email" autoComplete="off" required />
      <Checkbox label="With a mailbox of that address" name="own" defaultChecked />
      <Select label="Role" name="role" choices={ROLES} />
      <NewPassword
        label="First password"
        more="Leave it empty for a link with which they choose one themselves."
        required={false}
      />
    </AddDialog>
  );
}

const CONSEQUENCES = "They are signed out everywhere, and their app passwords and API keys end. They are told by mail.";

function Person({ person, own, say }: { person: PersonView; own: boolean; say(said: Said): void }) {
  const { id, email, name, role, canSignIn, locked, secondFactor } = person;
  const change = useChange(api.changePerson, { key: WORKSPACE, success: "Changed" });
  const reset = useChange(api.resetSecondFactor, {
    key: WORKSPACE,
    success: "Two-step sign-in reset",
  });
  const remove = useChange(api.removePerson, { key: WORKSPACE, success: "Removed" });
  return (
    <li>
      <div className="flex items-center gap-3 max-md:flex-wrap">
        <Avatar of={{ name, email }} />
        <div className="min-w-0 grow">
          <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <span className="font-medium wrap-anywhere">{name}</span>
            {own && <Badge tone="quiet">you</Badge>}
            {locked && <Badge tone="warn">locked</Badge>}
            {!canSignIn && !locked && <Badge tone="warn">no password</Badge>}
            {person.invitedUntil !== null && <Badge tone="quiet">has a link</Badge>}
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
                run={() => reset.mutate({ id })}
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
              run={() => remove.mutate({ id })}
              className="h-9"
            >
              Remove…
            </ConfirmButton>
          </div>
        )}
      </div>
      {!own && <SigningIn person={person} say={say} />}
    </li>
  );
}

/** How a person signs in, or no longer does. */
function SigningIn({ person, say }: { person: PersonView; say(said: Said): void }) {
  const { id, name, canSignIn, locked } = person;
  const link = useLink(say);
  const setPassword = useChange(api.setPersonPassword, { key: WORKSPACE, success: "Password set", atForm: true });
  const lock = useChange(api.lockPerson, { key: WORKSPACE });
  const unlock = useChange(api.unlockPerson, { key: WORKSPACE, success: "Unlocked" });
  return (
    <More title={`Password and access of ${name}`} className="mt-2 pl-11">
      {locked ? (
        <div className="mt-2 space-y-2">
          <p className="text-soft">
            {name} cannot sign in. Unlocked, they can again; app passwords, API keys and forwarding stay off.
          </p>
          <Button onClick={() => unlock.mutate({ id })} disabled={unlock.isPending} className="h-9">
            Unlock {name}
          </Button>
        </div>
      ) : (
        <div className="mt-2 space-y-4">
          <div className="space-y-2">
            <p className="text-soft">
              With a link, {name} chooses {canSignIn ? "another password" : "a password"} without your knowing it.
              {canSignIn && " Two-step sign-in stays; once they have chosen, sessions and app passwords end."}
            </p>
            <Button onClick={() => link.makeFor(person)} disabled={link.isPending} className="h-9">
              Make a link for {name}
            </Button>
          </div>
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
            <NewPassword label={`New password of ${name}`} more={canSignIn ? CONSEQUENCES : undefined} />
            {canSignIn && <Checkbox label="Keep their API keys" name="keepKeys" />}
          </LineForm>
          <ConfirmButton
            question={`Lock ${name} out?`}
            action={`Lock ${name}`}
            consequences={
              <>
                <p>At once they can no longer sign in, and their sessions end, mail apps included.</p>
                <p>
                  Their app passwords, API keys, programs and forwarding end for good. Their mail goes on arriving, and
                  shares stay.
                </p>
              </>
            }
            disabled={lock.isPending}
            run={() => lock.mutate({ id }, { onSuccess: (locked) => say({ locked }) })}
            className="h-9"
          >
            Lock {name}…
          </ConfirmButton>
        </div>
      )}
    </More>
  );
}
