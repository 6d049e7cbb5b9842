/**
 * The page that a program opens to be let in: who asks for what, and what the person gives. It is no page of the router,
 * which would rewrite the query that the program made.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleAlert, CircleCheck } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api, Refusal } from "../lib/api-client.ts";
import { AUTHORIZATION, type AuthorizationView, authorizationQuery } from "../lib/oauth-queries.ts";
import { draftToPolicy, policyToDraft, SCOPE_MEANING, type Scope } from "../lib/policy-words.ts";
import { meQuery, useChange } from "../lib/queries.ts";
import { noteOtherSignIn } from "../lib/waiting-requests.ts";
import { PolicyFields } from "../parts/settings/policy-fields.tsx";
import { Badge } from "../parts/settings/settings-blocks.tsx";
import { Button } from "../parts/ui/button.tsx";
import { Checkbox, Checkboxes } from "../parts/ui/fields.tsx";
import { Form } from "../parts/ui/form.tsx";
import { Notice, NotLoaded } from "../parts/ui/notice.tsx";
import { Toaster } from "../parts/ui/toaster.tsx";
import { ConfirmIdentity } from "./settings/settings-layout.tsx";
import { SignedOutPage, SignInAgain, SignInForm } from "./sign-in-page.tsx";

export function ConsentPage() {
  const me = useQuery({ ...meQuery, retry: false });
  const client = useQueryClient();
  if (me.error instanceof Refusal && me.error.status === 401) {
    return (
      <SignedOutPage title="Sign in to Mailroom">
        <p className="mb-4 text-sm text-soft">A program asks for access to your mail. Sign in to see which one.</p>
        <SignInForm
          done={() => {
            client.clear();
            noteOtherSignIn();
            return me.refetch();
          }}
        />
      </SignedOutPage>
    );
  }
  if (!me.data) return <NotLoaded query={me} what="the request" />;
  return (
    <>
      <Request email={me.data.email} />
      <ConfirmIdentity />
      <SignInAgain />
      <Toaster />
    </>
  );
}

function Request({ email }: { email: string }) {
  const opened = useQuery(authorizationQuery);
  const [left, setLeft] = useState<string>();
  if (left !== undefined) return <Left to={left} />;
  if (opened.error) {
    return (
      <Notice icon={CircleAlert} title="Nothing was sent to the program">
        <p role="alert">{opened.error.message}</p>
      </Notice>
    );
  }
  if (!opened.data) return <NotLoaded query={opened} what="the request" />;
  const { data } = opened;
  const leave = (to: string) => {
    setLeft(to);
    window.location.assign(to);
  };
  return (
    <SignedOutPage
      title={data.refusal ? "This program cannot get access" : "Give this program access to your mail?"}
      wide
    >
      <Asking of={data} email={email} />
      {data.refusal && <Refused of={data} refusal={data.refusal} leave={leave} />}
      {data.request && <Choice of={data} request={data.request} leave={leave} />}
    </SignedOutPage>
  );
}

/** Once the browser was sent on, which for the scheme of an app leaves this page open. */
const Left = ({ to }: { to: string }) => (
  <Notice icon={CircleCheck} title="Continue in the program">
    <p>
      You can close this page.{" "}
      <a href={to} rel="noreferrer" className="text-accent underline">
        Back to the program
      </a>
    </p>
  </Notice>
);

function placeText({ kind, name }: AuthorizationView["place"]): string {
  if (kind === "computer") return `A program on this computer, at ${name}`;
  return kind === "app" ? `Whichever app opens ${name} links on this device` : name;
}

/** The asking program: its own claims, and the facts known about it. */
function Asking({ of: { client, place }, email }: { of: AuthorizationView; email: string }) {
  const leadsElsewhere = client.host !== undefined && place.kind === "host" && place.name !== client.host;
  return (
    <>
      <dl className="grid gap-x-4 gap-y-3 text-sm sm:grid-cols-[9rem_1fr]">
        <Fact name="It calls itself" badge={<Badge tone="warn">not verified</Badge>}>
          {client.name}
        </Fact>
        <Fact name="Its host" badge={client.host !== undefined && <Badge tone="good">verified</Badge>}>
          {client.host ?? "Unknown: it registered itself, and anybody can do so under any name"}
        </Fact>
        <Fact name="It sends you back to" badge={place.kind === "host" && <Badge tone="good">verified</Badge>}>
          {placeText(place)}
        </Fact>
        <Fact name="You are signed in as">{email}</Fact>
      </dl>
      {(leadsElsewhere || place.kind !== "host") && (
        <p className="mt-4 rounded-lg bg-notice px-4 py-3 text-sm">
          {leadsElsewhere
            ? "It sends you back to another host than its own. Continue only if you know both."
            : "Any program on this device can use this name. Continue only if you have just started this one yourself."}
        </p>
      )}
    </>
  );
}

const Fact = ({ name, badge, children }: { name: string; badge?: ReactNode; children: ReactNode }) => (
  <>
    <dt className="text-muted">{name}</dt>
    <dd className="flex flex-wrap items-center gap-2 font-medium wrap-anywhere max-sm:-mt-2.5">
      {children}
      {badge}
    </dd>
  </>
);

function Refused({
  of: { place },
  refusal: { code, reason, returnTo },
  leave,
}: {
  of: AuthorizationView;
  refusal: NonNullable<AuthorizationView["refusal"]>;
  leave: (to: string) => void;
}) {
  return (
    <div className="mt-5 space-y-4 border-t border-line pt-5">
      <p role="alert" className="text-sm">
        {code === "access_denied" ? reason : `Its request is not valid (${code}: ${reason}).`}
      </p>
      <Button onClick={() => leave(returnTo)}>Go back to {place.name}</Button>
    </div>
  );
}

function Choice({
  of: { place },
  request: { id, scopes, suggested },
  leave,
}: {
  of: AuthorizationView;
  request: NonNullable<AuthorizationView["request"]>;
  leave: (to: string) => void;
}) {
  const approve = useChange(api.approveAuthorization, { key: AUTHORIZATION_ANSWERED, atForm: true });
  const deny = useChange(api.denyAuthorization, { key: AUTHORIZATION_ANSWERED });
  const [draft, setDraft] = useState(() => policyToDraft({ send: "hold" }));
  const answered = { onSuccess: ({ returnTo }: { returnTo: string }) => leave(returnTo) };
  return (
    <Form
      sending={approve}
      submit={({ all }) => {
        const lasts = all("lasts").length > 0;
        approve.mutate({ id, scopes: all<Scope>("scopes"), policy: draftToPolicy(draft), lasts }, answered);
      }}
      className="mt-5 space-y-4 border-t border-line pt-5"
    >
      <Checkboxes legend="Permissions" name="scopes" choices={scopes} chosen={suggested} meaning={SCOPE_MEANING} />
      <PolicyFields draft={draft} change={(part) => setDraft({ ...draft, ...part })} />
      <Checkbox label="It cannot renew its access: give it 30 days instead of an hour at a time" name="lasts" />
      <p className="text-sm text-muted">
        It acts as you until you remove its access, under “Sessions” in the settings. Owners and admins see it among the
        API keys, with what it did, and can pause, restrict and revoke it there.
      </p>
      <div className="flex flex-wrap gap-2">
        <Button kind="primary" type="submit" disabled={approve.isPending}>
          Allow, and go back to {place.name}
        </Button>
        <Button disabled={deny.isPending} onClick={() => deny.mutate({ id }, answered)}>
          Refuse
        </Button>
      </div>
    </Form>
  );
}

/** The request itself is not opened again. */
const AUTHORIZATION_ANSWERED = [...AUTHORIZATION, "answered"] as const;
