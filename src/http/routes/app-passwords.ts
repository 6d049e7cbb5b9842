/** A person's own app passwords, and the other settings for a mail app. */

import { createAppPassword, listAppPasswords, revokeAppPassword } from "../../access/app-passwords.ts";
import { nameOf } from "../../admin/names.ts";
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import { isoOf } from "../../operations/admin/common.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { AppPasswordListView, MailAppsView, NewAppPasswordView } from "../identity-views.ts";
import type { Route } from "../route.ts";
import { bodyOf, done } from "./asked.ts";

export interface AppPasswordParts {
  store: Pick<Store, "db" | "transact">;
  mailApps: MailAppsView;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}

const readNew = bodyOf(t.Object({ name: t.String() }));

export function appPasswordRoutes({ store, mailApps, runtime }: AppPasswordParts): Route[] {
  return [
    {
      method: "GET",
      path: "/app-passwords",
      run({ session }): AppPasswordListView {
        const appPasswords = listAppPasswords(store.db, session.caller.userId);
        return {
          appPasswords: appPasswords.map(({ id, name, createdAt, lastUsedAt }) => ({
            ...{ id, name, createdAt: isoOf(createdAt) },
            lastUsedAt: lastUsedAt === null ? null : isoOf(lastUsedAt),
          })),
          mailApps,
        };
      },
    },
    {
      // Body {name}.
      method: "POST",
      path: "/app-passwords",
      async run(asked): Promise<NewAppPasswordView> {
        const name = nameOf("the app", (await readNew(asked)).name);
        const { userId } = asked.session.caller;
        return store.transact((tx) => {
          asked.requireConfirmed(tx);
          return createAppPassword(tx, runtime, { userId, name });
        });
      },
    },
    {
      method: "DELETE",
      path: "/app-passwords/:id",
      run({ session, params }) {
        if (!store.transact((tx) => revokeAppPassword(tx, session.caller.userId, params.id ?? ""))) {
          throw new AppError("not_found", "There is no such app password of yours");
        }
        return done();
      },
    },
  ];
}
