/** API keys in settings (spec: Authentication 2). */
import { readJson } from "../../api/body.ts";
import { oneOf, t } from "../../api/json-schema.ts";
import { checkOf } from "../../api/shape.ts";
import { type Developers, type KeyRecord, SCOPES } from "../../settings/developers.ts";
import type { Scope } from "../../store/schema.ts";
import type { Store } from "../../store/store.ts";
import type { KeyListView, KeyView, NewKeyView } from "../developer-views.ts";
import type { Route } from "../route.ts";

export interface DeveloperParts {
  store: Pick<Store, "transact">;
  developers: Developers;
}

const MOST_BODY_BYTES = 16_384;
const checkKey = checkOf(t.Object({ name: t.String(), scopes: t.Array(oneOf(SCOPES), { minItems: 1, maxItems: 3 }) }));

const isoOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

const viewOf = ({ id, name, userEmail, hint, scopes, createdAt, lastUsedAt, revokedAt }: KeyRecord): KeyView => ({
  ...{ id, name, hint, scopes, user: userEmail },
  createdAt: new Date(createdAt).toISOString(),
  lastUsedAt: isoOf(lastUsedAt),
  revokedAt: isoOf(revokedAt),
});

export function developerRoutes({ store, developers }: DeveloperParts): Route[] {
  return [
    {
      method: "GET",
      path: "/keys",
      run: ({ session }): KeyListView => ({
        keys: developers.listKeys(session.caller.workspaceId).map(viewOf),
        scopes: SCOPES,
      }),
    },
    {
      // Body {name, scopes}. It acts for who creates it (spec: Authentication 3).
      method: "POST",
      path: "/keys",
      async run({ request, session }): Promise<NewKeyView> {
        const given = await readJson(request, MOST_BODY_BYTES);
        checkKey(given);
        const { name, scopes } = given as { name: string; scopes: Scope[] };
        return store.transact((tx) => developers.createKey(tx, { userId: session.caller.userId, name, scopes }));
      },
    },
    {
      method: "DELETE",
      path: "/keys/:id",
      run({ params: { id = "" }, session }) {
        store.transact((tx) => developers.revokeKey(tx, id, session.caller.workspaceId));
        return new Response(null, { status: 204 });
      },
    },
  ];
}
