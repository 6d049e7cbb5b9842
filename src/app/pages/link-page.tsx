/**
 * Pages that a link with a token opens. The token is in the URL's fragment, which the page removes at once, so that no history
 * and no log keeps it.
 */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Refusal } from "../lib/api-client.ts";
import { Button } from "../parts/ui/button.tsx";
import { SignedOutPage } from "./sign-in-page.tsx";

const readToken = (): string => window.location.hash.slice(1);

/** Takes the token off the URL. Empty if the link was cut. */
export function useLinkToken(): string {
  const [token] = useState(readToken);
  useEffect(() => history.replaceState(history.state, "", window.location.pathname), []);
  return token;
}

/** Shows `children` of what `check` answers for the token, or why it was refused. `giver`: who gave the link, for one that was cut. */
export function LinkPage<Checked>({
  token,
  check,
  giver,
  title,
  children,
}: {
  token: string;
  check(given: { token: string }): Promise<Checked>;
  giver: string;
  /** Until the answer is there, `checked` is undefined. */
  title(checked?: Checked): string;
  children(checked: Checked): ReactNode;
}) {
  const checked = useQuery({
    queryKey: ["link", token],
    queryFn: async () => ({ answer: await check({ token }) }),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (checked.isError) {
    return (
      <SignedOutPage title={title()}>
        <p role="alert" className="text-sm text-soft">
          {token === "" ? `Open the whole link that ${giver}.` : checked.error.message}
        </p>
        {checked.error instanceof Refusal && checked.error.status === 0 && (
          <Button onClick={() => void checked.refetch()} className="mt-3">
            Try again
          </Button>
        )}
        <p className="mt-3 text-sm">
          <a href="/sign-in" className="text-accent underline">
            Sign in
          </a>
        </p>
      </SignedOutPage>
    );
  }
  return (
    <SignedOutPage title={title(checked.data?.answer)}>
      {checked.data ? children(checked.data.answer) : <p className="text-sm text-muted">One moment…</p>}
    </SignedOutPage>
  );
}
