/**
 * The sign-in form: address and password, then a code if the person has a second factor. After a refusal the field to correct
 * has the focus.
 */
import { type FormEvent, useEffect, useRef, useState } from "react";
import { api } from "../lib/api.ts";
import { Button } from "./button.tsx";
import { Field, Tick } from "./field.tsx";

/** The first step's values, which are sent again with the code. */
interface Given {
  email: string;
  password: string;
  keep: boolean;
}

export function SignInForm({
  email,
  done,
}: {
  /** Address of the person who has to sign in; absent: anybody. */
  email?: string;
  /** Called once there is a session. */
  done: () => unknown;
}) {
  const [given, setGiven] = useState<Given>();
  const [refusal, setRefusal] = useState<string>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);

  // Moves the focus to the code, or after a refusal to the last field.
  useEffect(() => {
    if (given === undefined && refusal === undefined) return;
    const fields = form.current?.querySelectorAll<HTMLInputElement>("input[data-secret]");
    const field = fields?.item(fields.length - 1);
    field?.focus();
    field?.select();
  }, [given, refusal]);

  async function attempt(tried: Given, code?: string): Promise<void> {
    setBusy(true);
    setRefusal(undefined);
    try {
      const answer = await api.signIn({ ...tried, ...(code !== undefined && { code }) });
      if (answer?.next === "code") setGiven(tried);
      else await done();
    } catch (error) {
      setRefusal((error as Error).message);
    } finally {
      setBusy(false);
    }
  }

  function submit(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const text = (name: string) => String(fields.get(name) ?? "");
    if (given) void attempt(given, text("code"));
    else void attempt({ email: text("email"), password: text("password"), keep: fields.has("keep") });
  }

  return (
    <form ref={form} onSubmit={submit} className="space-y-4">
      {given ? (
        <CodeField
          email={given.email}
          back={() => {
            setGiven(undefined);
            setRefusal(undefined);
          }}
        />
      ) : (
        <PasswordFields email={email} />
      )}
      {refusal !== undefined && (
        <p role="alert" className="text-sm text-danger">
          {refusal}
        </p>
      )}
      <Button kind="primary" type="submit" disabled={busy} className="h-9 w-full">
        {busy ? "Signing in…" : "Sign in"}
      </Button>
    </form>
  );
}

function PasswordFields({ email }: { email: string | undefined }) {
  return (
    <>
      <Field
        label="Email address"
        name="email"
        type="email"
        autoComplete="username"
        required
        defaultValue={email}
        readOnly={email !== undefined}
        autoFocus={email === undefined}
      />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
        autoFocus={email !== undefined}
        data-secret
      />
      <Tick label="Keep me signed in on this device" name="keep" defaultChecked />
    </>
  );
}

function CodeField({ email, back }: { email: string; back: () => void }) {
  const [recovers, setRecovers] = useState(false);
  return (
    <>
      <p className="text-sm text-soft">
        Signing in as <span className="font-medium break-all text-ink">{email}</span>
      </p>
      {recovers ? (
        <Field key="recovery" label="Recovery code" name="code" autoComplete="off" required autoFocus data-secret />
      ) : (
        <Field
          key="code"
          label="Code from your authenticator app"
          name="code"
          inputMode="numeric"
          autoComplete="one-time-code"
          required
          data-secret
        />
      )}
      <div className="flex flex-wrap justify-between gap-2 text-sm">
        <button type="button" onClick={() => setRecovers(!recovers)} className="text-accent underline">
          {recovers ? "Use a code from the app" : "Use a recovery code"}
        </button>
        <button type="button" onClick={back} className="text-accent underline">
          Start over
        </button>
      </div>
    </>
  );
}
