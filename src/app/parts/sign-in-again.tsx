/** A dialog over a page whose session has ended. After sign-in everything is as it was. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { api } from "../lib/api.ts";
import { meQuery } from "../lib/queries.ts";
import { sessionBegan, useSessionEnded } from "../lib/session.ts";
import { SignInForm } from "./sign-in-form.tsx";

export function SignInAgain() {
  const ended = useSessionEnded();
  return ended ? <Dialog /> : null;
}

function Dialog() {
  const { data: me } = useQuery(meQuery);
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLInputElement>("[data-secret]")?.focus();
  }, []);
  const goOn = () => {
    sessionBegan();
    return client.invalidateQueries();
  };
  useEffect(() => {
    // They may have signed in again in another tab.
    const look = async () => {
      const present = await api.me().catch(() => undefined);
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
      <p className="mt-1 mb-4 text-sm text-muted">Sign in to go on where you were. Nothing you typed is lost.</p>
      {me && <SignInForm email={me.email} done={goOn} />}
      <p className="mt-4 text-center text-sm">
        <a href="/sign-in" className="text-accent underline">
          Sign in as somebody else
        </a>
      </p>
    </dialog>
  );
}
