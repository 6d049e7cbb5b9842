import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api } from "../lib/api.ts";
import { Button } from "../parts/button.tsx";
import { Field } from "../parts/field.tsx";
import { Mark } from "../parts/mark.tsx";

export function SignIn() {
  const navigate = useNavigate();
  const client = useQueryClient();
  const [refusal, setRefusal] = useState<string>();
  const [busy, setBusy] = useState(false);

  async function signIn(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setRefusal(undefined);
    try {
      await api.signIn({ email: String(form.get("email")), password: String(form.get("password")) });
      // What somebody else was shown in this browser is not theirs.
      client.clear();
      await navigate({ to: "/mail/$folder", params: { folder: "inbox" }, search: {} });
    } catch (error) {
      setRefusal((error as Error).message);
    } finally {
      setBusy(false);
    }
  }

  return (
    <main className="grid min-h-full place-items-center p-4">
      <form onSubmit={signIn} className="w-full max-w-80" aria-labelledby="sign-in">
        <Mark className="mx-auto mb-5 size-11" />
        <h1 id="sign-in" className="mb-6 text-center text-xl font-semibold tracking-tight">
          Sign in to Mailroom
        </h1>
        <div className="space-y-4 rounded-xl border border-line bg-panel p-5 shadow-sm">
          <Field label="Email address" name="email" type="email" autoComplete="username" required autoFocus />
          <Field label="Password" name="password" type="password" autoComplete="current-password" required />
          {refusal !== undefined && (
            <p role="alert" className="text-sm text-danger">
              {refusal}
            </p>
          )}
          <Button kind="primary" type="submit" disabled={busy} className="h-9 w-full">
            {busy ? "Signing in…" : "Sign in"}
          </Button>
        </div>
      </form>
    </main>
  );
}
