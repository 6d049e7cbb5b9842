/** Signing in: the page, and the dialog over a page whose session has ended. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { api } from "../lib/api-client.ts";
import { meQuery } from "../lib/queries.ts";
import { noteOtherSignIn, noteSignedInAgain, useSessionEnded } from "../lib/waiting-requests.ts";
import { Button } from "../parts/ui/button.tsx";
import { Checkbox, Field } from "../parts/ui/fields.tsx";
import { Mark } from "../parts/ui/graphics.tsx";
import { StandbyBanner } from "../parts/ui/notice.tsx";
import { setupQuery } from "./settings/settings-identity.ts";

export function SignIn() {
  const router = useRouter();
  const client = useQueryClient();
  const { to } = useSearch({ from: "/sign-in" });
  const { data: setup } = useQuery(setupQuery);

  if (setup?.due) {
    return (
      <SignedOutPage title="Mailroom is not set up yet">
        <p className="text-sm text-soft">
          When the server started, it printed a link after the words “Mailroom is not set up yet”. Open that link in
          this browser, or run <code>mailroom setup</code> on the server.
        </p>
      </SignedOutPage>
    );
  }
  return (
    <SignedOutPage title="Sign in to Mailroom">
      <SignInForm
        done={() => {
          // Another person may have been signed in here before, whose data must not be shown.
          client.clear();
          noteOtherSignIn();
          router.history.push(to ?? "/mail/inbox");
        }}
      />
    </SignedOutPage>
  );
}

/** The first step's values, which are sent again with the code. */
export interface SignInGiven {
  email: string;
  password: string;
  keep: boolean;
}

/**
 * The sign-in form: address and password, then a code if the person has a second factor. After a refusal the field to
 * correct has the focus.
 */
export function SignInForm({
  email,
  given: before,
  done,
}: {
  /** Address of the person who has to sign in; absent: anybody. */
  email?: string;
  /** Credentials that the server has accepted already, so that only the code is missing. */
  given?: SignInGiven | undefined;
  /** Called once there is a session. */
  done: () => unknown;
}) {
  const [given, setGiven] = useState(before);
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

  async function attempt(tried: SignInGiven, code?: string): Promise<void> {
    setBusy(true);
    setRefusal(undefined);
    try {
      const result = await api.signIn({ ...tried, ...(code !== undefined && { code }) });
      if (result?.next === "code") setGiven(tried);
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
      <Checkbox label="Keep me signed in on this device" name="keep" defaultChecked />
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

/** A dialog over a page whose session has ended. After sign-in everything is as it was. */
export function SignInAgain() {
  const ended = useSessionEnded();
  return ended ? <SignInAgainDialog /> : null;
}

function SignInAgainDialog() {
  const { data: me } = useQuery(meQuery);
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLInputElement>("[data-secret]")?.focus();
  }, []);
  const goOn = () => {
    noteSignedInAgain();
    return client.invalidateQueries();
  };
  useEffect(() => {
    // Access have signed in again in another tab.
    const look = async () => {
      const present = await api.getMe().catch(() => undefined);
      if (present && present.id === me?.id) await goOn();
    };
    window.addEventListener("focus", look);
    return () => window.removeEventListener("focus", look);
  });
  return (
    <dialog
      ref={dialog}
      // Escape does not close it: it stays until there is a session.
      onCancel={(event) => event.preventDefault()}
      onClose={() => dialog.current?.showModal()}
      aria-labelledby="signed-out"
      className="m-auto w-88 max-w-[92vw] rounded-xl border border-line bg-raised p-5 text-ink shadow-xl backdrop:bg-ground/80"
    >
      <h2 id="signed-out" className="text-lg font-semibold">
        You were signed out
      </h2>
      <p className="mt-1 mb-4 text-sm text-muted">Sign in to continue where you were. Nothing you typed is lost.</p>
      {me && <SignInForm email={me.email} done={goOn} />}
      <p className="mt-4 text-center text-sm">
        <a href="/sign-in" className="text-accent underline">
          Sign in as somebody else
        </a>
      </p>
    </dialog>
  );
}

/** The layout of pages before sign-in: logo, title, and a box. */
export function SignedOutPage({
  title,
  wide = false,
  children,
}: {
  title: string;
  wide?: boolean;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <main className="grid min-h-full place-items-center p-4" aria-labelledby={id}>
      <StandbyBanner />
      <div className={`w-full ${wide ? "max-w-2xl" : "max-w-80"}`}>
        <Mark className="mx-auto mb-5 size-11" />
        <h1 id={id} className="mb-6 text-center text-xl font-semibold tracking-tight">
          {title}
        </h1>
        <div className="rounded-xl border border-line bg-panel p-5 shadow-sm">{children}</div>
      </div>
    </main>
  );
}
