/** The person's second factor: adds it with an authenticator app, renews recovery codes, removes it. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { api } from "../../lib/api-client.ts";
import { meQuery, useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { SecondFactorCode } from "../../parts/settings/second-factor-code.tsx";
import { CopyValue, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { Field } from "../../parts/ui/fields.tsx";
import { Form, type Sending } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { newSecondFactorQuery, type QrView, SECOND_FACTOR, secondFactorQuery } from "./settings-identity.ts";

/** Below this, new recovery codes are suggested. */
const FEW = 4;

export function SecondFactorPage() {
  const query = useQuery(secondFactorQuery);
  const [codes, setCodes] = useState<readonly string[]>();
  const [adds, setAdds] = useState(false);
  if (!query.data) return <NotLoaded query={query} what="second factor" />;
  const { since, recoveryCodes } = query.data;

  return (
    <SettingsPage
      title="Two-step sign-in"
      intro="Signing in takes your password and a code from an authenticator app. Mail apps use an app password instead."
    >
      {codes && <RecoveryCodes codes={codes} />}
      {since !== null ? (
        <>
          <p className="text-sm">
            It is on since {fullTime(since)}. {recoveryCodes} recovery codes are left
            {recoveryCodes < FEW ? ": make new ones before they run out." : "."}
          </p>
          <Renew done={setCodes} />
          <Remove
            done={() => {
              setCodes(undefined);
              setAdds(false);
            }}
          />
        </>
      ) : adds ? (
        <Add done={setCodes} />
      ) : (
        <Panel title="It is off" about="You need an authenticator app on your phone or in your password manager.">
          <Button kind="primary" onClick={() => setAdds(true)}>
            Set it up
          </Button>
        </Panel>
      )}
    </SettingsPage>
  );
}

function ProofForm({
  code,
  action,
  danger = false,
  sending,
  submit,
}: {
  /** Label of the field for the code, where it is not the usual one. */
  code?: string;
  action: string;
  danger?: boolean;
  sending: Sending;
  submit: (given: { password: string; code: string }, empty: () => void) => void;
}) {
  const { data: me } = useQuery(meQuery);
  return (
    <Form
      sending={sending}
      submit={({ text, empty }) => submit({ password: text("password"), code: text("code") }, empty)}
      className="max-w-96 space-y-3"
    >
      <input type="hidden" autoComplete="username" value={me?.email ?? ""} />
      <SecondFactorCode label={code} />
      <Field label="Your password" name="password" type="password" autoComplete="current-password" required />
      <SaveRow action={action} sending={sending} kind={danger ? "danger" : "primary"} />
    </Form>
  );
}

function Step({ number, children }: { number: number; children: ReactNode }) {
  return (
    <li className="space-y-2 text-sm">
      <p className="font-medium">Step {number}</p>
      {children}
    </li>
  );
}

function Add({ done }: { done: (codes: readonly string[]) => void }) {
  const proposed = useQuery(newSecondFactorQuery);
  const add = useChange(api.addSecondFactor, {
    key: SECOND_FACTOR,
    success: "Two-step sign-in is on. You are signed out everywhere else.",
    atForm: true,
  });
  if (!proposed.data) return <NotLoaded query={proposed} what="QR code" />;
  const { secret, qr } = proposed.data;
  return (
    <Panel title="Set it up">
      <ol className="space-y-6">
        <Step number={1}>
          <p>Scan this with an authenticator app, or type the secret into it.</p>
          <QrCode of={qr} label="QR code for an authenticator app" />
          <div className="max-w-96">
            <CopyValue label="Secret" value={secret} />
          </div>
        </Step>
        <Step number={2}>
          <p>Type the code that the app then shows.</p>
          <ProofForm
            code="Code from the app"
            action="Turn on"
            sending={add}
            submit={(given) =>
              add.mutate({ ...given, secret }, { onSuccess: ({ recoveryCodes }) => done(recoveryCodes) })
            }
          />
        </Step>
      </ol>
    </Panel>
  );
}

function RecoveryCodes({ codes }: { codes: readonly string[] }) {
  const text = `${codes.join("\n")}\n`;
  return (
    <section aria-labelledby="recovery-codes" className="space-y-3 rounded-xl bg-notice p-5">
      <h2 id="recovery-codes" className="text-base font-semibold">
        Your recovery codes
      </h2>
      <p className="max-w-prose text-sm" role="status">
        Each signs you in once when you have lost your app. Keep them in a safe place: they are not shown again.
      </p>
      <ol className="grid max-w-96 grid-cols-2 gap-x-6 gap-y-1 font-mono text-sm max-md:grid-cols-1">
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ol>
      <div className="max-w-96 space-y-2">
        <CopyValue label="All recovery codes" value={codes.join(" ")} />
        <a
          href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`}
          download="mailroom-recovery-codes.txt"
          className="inline-block text-sm text-accent underline"
        >
          Save them as a file
        </a>
      </div>
    </section>
  );
}

function Renew({ done }: { done: (codes: readonly string[]) => void }) {
  const renew = useChange(api.renewRecoveryCodes, {
    key: SECOND_FACTOR,
    success: "The old codes no longer work",
    atForm: true,
  });
  return (
    <Panel title="New recovery codes" about="The codes that you have now stop working.">
      <ProofForm
        action="Make new codes"
        sending={renew}
        submit={(given, empty) =>
          renew.mutate(given, {
            onSuccess: ({ recoveryCodes }) => {
              done(recoveryCodes);
              empty();
            },
          })
        }
      />
    </Panel>
  );
}

function Remove({ done }: { done: () => void }) {
  const remove = useChange(api.removeSecondFactor, {
    key: SECOND_FACTOR,
    success: "Two-step sign-in is off",
    atForm: true,
  });
  return (
    <Panel title="Turn it off" about="Your password alone then signs you in, in mail apps too.">
      <ProofForm
        action="Turn off"
        danger
        sending={remove}
        submit={(given) => remove.mutate(given, { onSuccess: done })}
      />
    </Panel>
  );
}

/** A QR code, dark on light in both colour schemes, as scanners expect. */
function QrCode({ of: { size, path }, label }: { of: QrView; label: string }) {
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} className="size-48 rounded-lg">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" shapeRendering="crispEdges" />
    </svg>
  );
}
