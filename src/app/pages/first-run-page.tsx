/** The first run: does what `mailroom setup` does, for the person who opened the link that the server printed. */
import { useMutation } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Input } from "../lib/api-client.ts";
import { noteOtherSignIn } from "../lib/waiting-requests.ts";
import { DnsRecords } from "../parts/settings/dns-records.tsx";
import { CopyValue } from "../parts/settings/settings-blocks.tsx";
import { Button } from "../parts/ui/button.tsx";
import { Field, NewPassword } from "../parts/ui/fields.tsx";
import { Form } from "../parts/ui/form.tsx";
import { LinkPage, useLinkToken } from "./link-page.tsx";
import type { SetupView } from "./settings/settings-identity.ts";
import { SignedOutPage } from "./sign-in-page.tsx";

export function FirstRun() {
  const token = useLinkToken();
  const [made, setMade] = useState<SetupView>();
  if (made) return <Done made={made} />;
  return (
    <LinkPage
      token={token}
      check={api.checkSetupToken}
      giver="the server printed when it started"
      title={() => "Set up Mailroom"}
    >
      {() => <SetupForm token={token} done={setMade} />}
    </LinkPage>
  );
}

function SetupForm({ token, done }: { token: string; done: (made: SetupView) => void }) {
  const setUp = useMutation({ mutationFn: (given: Input<"setUpServer">) => api.setUpServer(given), onSuccess: done });
  return (
    <Form
      sending={setUp}
      submit={({ text }) => {
        const workspace = text("workspace").trim();
        setUp.mutate({
          token,
          domain: text("domain").trim(),
          email: text("email").trim(),
          name: text("name").trim(),
          ...(workspace !== "" && { workspace }),
          password: text("password"),
        });
      }}
      className="space-y-4"
    >
      <Field label="Your name" name="name" autoComplete="name" required autoFocus />
      <Field
        label="Your email address"
        name="email"
        type="email"
        placeholder="you@example.com"
        autoComplete="username"
        required
        hint="You sign in with it, and it gets a mailbox here."
      />
      <Field
        label="Domain for mail"
        name="domain"
        placeholder="example.com"
        autoCapitalize="none"
        autoComplete="off"
        spellCheck={false}
        required
        hint="The part of your address after the @."
      />
      <NewPassword label="Password" />
      <Field
        label="Name of the workspace"
        name="workspace"
        autoComplete="organization"
        hint="Leave empty to use the domain."
      />
      <Button kind="primary" type="submit" disabled={setUp.isPending} className="h-9 w-full">
        {setUp.isPending ? "Setting up…" : "Set up"}
      </Button>
    </Form>
  );
}

function Done({ made: { address, apiKey, dns } }: { made: SetupView }) {
  const router = useRouter();
  return (
    <SignedOutPage title="Mailroom is set up" wide>
      <div className="space-y-6">
        <p className="text-sm text-soft">
          You are signed in as <span className="font-medium text-ink">{address}</span>.
        </p>
        <section aria-labelledby="first-key" className="space-y-2 rounded-lg bg-notice p-3">
          <h2 id="first-key" className="text-sm font-medium">
            API key to read, send and organise mail
          </h2>
          <p className="text-sm">Copy it now: it is not shown again. You can make more in the settings.</p>
          <CopyValue label="API key" value={apiKey} />
        </section>
        <section aria-labelledby="dns">
          <h2 id="dns" className="text-sm font-medium">
            DNS records to publish
          </h2>
          <p className="mt-1 text-sm text-muted">
            The domain cannot send or receive mail until it is verified. Publish these records, then verify the domain
            in the settings, under Domains.
          </p>
          <div className="mt-3">
            <DnsRecords label="DNS records" records={dns} />
          </div>
        </section>
        <Button
          kind="primary"
          className="h-9 w-full"
          onClick={() => {
            noteOtherSignIn();
            router.history.push("/mail/inbox");
          }}
        >
          Go to your mail
        </Button>
      </div>
    </SignedOutPage>
  );
}
