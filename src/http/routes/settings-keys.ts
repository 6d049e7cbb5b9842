/** API keys in settings (rules: API keys). */

import { type Developers, type KeyRecord, SCOPES } from "../../admin/developers.ts";
import { oneOf, t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { KeyListView, KeyView, NewKeyView } from "../developer-views.ts";
import type { Route } from "../route.ts";
import { bodyOf, done, isoOf, workspaceOf } from "./asked.ts";

export interface KeyParts {
  store: Pick<Store, "transact">;
  developers: Developers;
}

const readKey = bodyOf(
  t.Object({ name: t.String(), scopes: t.Array(oneOf(SCOPES), { minItems: 1, maxItems: SCOPES.length }) }),
);

const viewOf = ({ id, name, userEmail, hint, scopes, createdAt, lastUsedAt, revokedAt }: KeyRecord): KeyView => ({
  ...{ id, name, hint, scopes, user: userEmail },
  createdAt: isoOf(createdAt),
  lastUsedAt: lastUsedAt === null ? null : isoOf(lastUsedAt),
  revokedAt: revokedAt === null ? null : isoOf(revokedAt),
});

export function keyRoutes({ store, developers }: KeyParts): Route[] {
  return [
    {
      method: "GET",
      path: "/keys",
      run: (asked): KeyListView => ({ keys: developers.listKeys(workspaceOf(asked)).map(viewOf), scopes: SCOPES }),
    },
    {
      // Body {name, scopes}. It acts for who creates it (rules: Acting person).
      method: "POST",
      path: "/keys",
      async run(asked): Promise<NewKeyView> {
        const { name, scopes } = await readKey(asked);
        const { userId } = asked.session.caller;
        return store.transact((tx) => {
          asked.requireConfirmed(tx);
          return developers.createKey(tx, { userId, name, scopes });
        });
      },
    },
    {
      method: "DELETE",
      path: "/keys/:id",
      run(asked) {
        store.transact((tx) => developers.revokeKey(tx, asked.params.id ?? "", workspaceOf(asked)));
        return done();
      },
    },
  ];
}
