/** The programs that a person let in, with buttons to end that. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { GRANTS, type GrantView, grantsQuery } from "../../lib/oauth-queries.ts";
import { useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";
import { PolicySentences } from "./policy-fields.tsx";
import { ListPanel } from "./row-list.tsx";
import { Badge, Facts } from "./settings-blocks.tsx";

/** Nothing where there is none. */
export function Grants() {
  const { data: grants = [] } = useQuery(grantsQuery);
  if (grants.length === 0) return null;
  return (
    <ListPanel
      of={grants}
      title="Programs"
      about="Programs that you gave access to your mail. Owners and admins see them among the API keys."
    >
      {(grant) => <GrantRow key={grant.id} of={grant} />}
    </ListPanel>
  );
}

function GrantRow({ of: { id, client, scopes, policy, createdAt, lastUsedAt } }: { of: GrantView }) {
  const revoke = useChange(api.revokeGrant, { key: GRANTS, success: "Access removed" });
  return (
    <li>
      <Facts
        title={
          <>
            {client.name}
            {scopes.map((scope) => (
              <Badge key={scope} tone="quiet">
                {scope}
              </Badge>
            ))}
          </>
        }
        facts={
          <>
            <p>
              Of {client.host}. Given access {fullTime(createdAt)},{" "}
              {lastUsedAt === null ? "never used" : `last used ${fullTime(lastUsedAt)}`}.
            </p>
            {Object.keys(policy).length > 0 && <PolicySentences of={policy} />}
          </>
        }
      >
        <Button
          kind="danger"
          aria-label={`Remove the access of ${client.name}`}
          disabled={revoke.isPending}
          onClick={() => revoke.mutate({ id })}
        >
          Remove access
        </Button>
      </Facts>
    </li>
  );
}
