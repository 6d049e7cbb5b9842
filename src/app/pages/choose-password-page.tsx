/** Choosing a password with a link. With the password the page signs in at once, and asks for the code of a second factor. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../lib/api-client.ts";
import { noteOtherSignIn } from "../lib/waiting-requests.ts";
import { Button } from "../parts/ui/button.tsx";
import { Field, NewPassword } from "../parts/ui/fields.tsx";
import { Form } from "../parts/ui/form.tsx";
import { LinkPage, useLinkToken } from "./link-page.tsx";
import type { InvitedView } from "./settings/settings-identity.ts";
import { SignInForm, type SignInGiven } from "./sign-in-page.tsx";

export function ChoosePassword() {
  const token = useLinkToken();
  return (
    <LinkPage
      token={token}
      check={api.checkPasswordLink}
      giver="you were given"
      title={(invited) => (invited?.isReset === false ? `Welcome, ${invited.name}` : "Choose a password")}
    >
      {(invited) => <Chosen token={token} invited={invited} />}
    </LinkPage>
  );
}

function Chosen({ token, invited: { email, isReset } }: { token: string; invited: InvitedView }) {
  const router = useRouter();
  const client = useQueryClient();
  const [asked, setAsked] = useState<{ given?: SignInGiven }>();

  function goOn(): void {
    // Another person may have been signed in here before, whose data must not be shown.
    client.clear();
    noteOtherSignIn();
    router.history.push("/mail/inbox");
  }
  const choose = useMutation({
    mutationFn: (password: string) => api.choosePassword({ token, password }),
    async onSuccess(_, password) {
      const given = { email, password, keep: true };
      try {
        const result = await api.signIn(given);
        if (result?.next === "code") setAsked({ given });
        else goOn();
      } catch {
        // The password is chosen. What kept this from signing in is said when they try themselves.
        setAsked({});
      }
    },
  });

  if (asked) return <SignInForm email={email} given={asked.given} done={goOn} />;
  return (
    <Form sending={choose} submit={({ text }) => choose.mutate(text("password"))} className="space-y-4">
      <Field label="Email address" name="email" type="email" autoComplete="username" value={email} readOnly />
      <NewPassword
        label="New password"
        more={isReset ? "You are signed out elsewhere, and your app passwords end." : undefined}
        autoFocus
      />
      <Button kind="primary" type="submit" disabled={choose.isPending || choose.isSuccess} className="h-9 w-full">
        {choose.isPending ? "Setting the password…" : "Set password and sign in"}
      </Button>
    </Form>
  );
}
