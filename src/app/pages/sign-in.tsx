import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { sessionReplaced } from "../lib/session.ts";
import { setupQuery } from "../lib/settings-identity.ts";
import { DoorPage } from "../parts/door-page.tsx";
import { SignInForm } from "../parts/sign-in-form.tsx";

export function SignIn() {
  const router = useRouter();
  const client = useQueryClient();
  const { to } = useSearch({ from: "/sign-in" });
  const { data: setup } = useQuery(setupQuery);

  if (setup?.due) {
    return (
      <DoorPage title="Mailroom is not set up yet">
        <p className="text-sm text-soft">
          Who started this server finds a link in what it printed, after “Mailroom is not set up yet”. Open that link in
          this browser, or run <code>mailroom setup</code> on the server.
        </p>
      </DoorPage>
    );
  }
  return (
    <DoorPage title="Sign in to Mailroom">
      <SignInForm
        done={() => {
          // Another person may have been signed in here before, whose data must not be shown.
          client.clear();
          sessionReplaced();
          router.history.push(to ?? "/mail/inbox");
        }}
      />
    </DoorPage>
  );
}
