/** The person's sessions, with buttons to end them. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { Grants } from "../../parts/settings/grant-list.tsx";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Badge, Facts, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { SESSIONS, type SessionView, sessionsQuery } from "./settings-identity.ts";

export function SessionsPage() {
  const list = useQuery(sessionsQuery);
  const endOthers = useChange(api.endOtherSessions, { key: SESSIONS, success: "Signed out everywhere else" });
  if (!list.data) return <NotLoaded query={list} what="sessions" />;
  const { sessions } = list.data;
  return (
    <SettingsPage
      title="Sessions"
      intro="Browsers where you are signed in. If you don’t recognise one, sign it out and change your password, which signs out all others."
    >
      <ListPanel
        of={sessions}
        title="Signed in"
        label="Sessions"
        action={
          sessions.length > 1 && (
            <Button kind="danger" disabled={endOthers.isPending} onClick={() => endOthers.mutate(undefined)}>
              Sign out everywhere else
            </Button>
          )
        }
      >
        {(session) => <SessionRow key={session.id} of={session} />}
      </ListPanel>
      <Grants />
    </SettingsPage>
  );
}

function SessionRow({ of: { id, browser, source, createdAt, lastUsedAt, current } }: { of: SessionView }) {
  const end = useChange(api.endSession, { key: SESSIONS, success: "Signed out" });
  return (
    <li>
      <Facts
        title={
          <>
            <span>{browser}</span>
            {current && <Badge tone="good">this one</Badge>}
          </>
        }
        facts={
          <>
            {source !== "" && `From ${source}. `}Signed in {fullTime(createdAt)}, last used {fullTime(lastUsedAt)}.
          </>
        }
      >
        {!current && (
          <Button
            kind="danger"
            aria-label={`Sign out ${browser}, last used ${fullTime(lastUsedAt)}`}
            disabled={end.isPending}
            onClick={() => end.mutate({ id })}
          >
            Sign out
          </Button>
        )}
      </Facts>
    </li>
  );
}
