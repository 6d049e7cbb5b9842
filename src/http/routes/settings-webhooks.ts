/** The secret of a webhook endpoint, shown after a proof of identity. Only the app has this route (rules: Secret rotation). */

import type { Developers } from "../../admin/developers.ts";
import { isoOf } from "../../operations/admin/common.ts";
import type { Store } from "../../store/store.ts";
import type { SecretView } from "../developer-views.ts";
import type { Route } from "../route.ts";
import { workspaceOf } from "./asked.ts";

export interface SecretParts {
  store: Pick<Store, "db">;
  developers: Developers;
  runtime: { now(): number };
}

export const secretRoute = ({ store, developers, runtime }: SecretParts): Route => ({
  method: "GET",
  path: "/webhooks/:id/secret",
  run(asked): SecretView {
    const endpoint = developers.webhook(asked.params.id ?? "", workspaceOf(asked));
    asked.requireConfirmed(store.db);
    const { secret, previousSecret, previousUntil } = endpoint;
    const isRotating = previousSecret !== null && previousUntil !== null && previousUntil > runtime.now();
    return { secret, ...(isRotating && { previous: { secret: previousSecret, until: isoOf(previousUntil) } }) };
  },
});
