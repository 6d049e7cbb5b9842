/** A dialog that asks for a proof of identity. The request that needs it continues afterwards. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { endConfirmation, useWantedProof } from "../lib/confirming.ts";
import { meQuery } from "../lib/queries.ts";
import { useChange } from "../lib/settings.ts";
import { identityApi, SESSIONS } from "../lib/settings-identity.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Field } from "./field.tsx";
import { Form } from "./form.tsx";

export function ConfirmIdentity() {
  const wanted = useWantedProof();
  const { data: me } = useQuery(meQuery);
  const confirm = useChange(identityApi.confirm, { key: SESSIONS, atForm: true });
  const password = useRef<HTMLDivElement>(null);
  const close = () => {
    confirm.reset();
    endConfirmation(false);
  };
  // An opening dialog gives the focus to its first button; the password field takes it from there.
  useEffect(() => {
    if (wanted) password.current?.querySelector("input")?.focus();
  }, [wanted]);
  return (
    <Dialog open={wanted !== undefined} close={close} title="Confirm that it is you">
      <Form
        sending={confirm}
        submit={({ text }) =>
          confirm.mutate(
            { password: text("password"), ...(wanted?.code && { code: text("code") }) },
            { onSuccess: () => endConfirmation(true) },
          )
        }
        className="space-y-4"
      >
        <p className="text-sm text-soft">
          This could outlast your session, so it takes your password{wanted?.code ? " and a code" : ""} again. For some
          minutes you are not asked anew.
        </p>
        <input type="hidden" autoComplete="username" value={me?.email ?? ""} />
        <div ref={password}>
          <Field label="Your password" name="password" type="password" autoComplete="current-password" required />
        </div>
        {wanted?.code && (
          <Field label="Code from the app, or a recovery code" name="code" autoComplete="one-time-code" required />
        )}
        <div className="flex justify-end gap-2 pt-1">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={confirm.isPending}>
            Confirm
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
