/** A person's own profile: display name and password. */

import { hashPassword, type People } from "../../admin/people.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { Route } from "../route.ts";
import { bodyOf, done } from "./asked.ts";
import { CODE, PASSWORD, type Prove } from "./proof.ts";

export interface ProfileParts {
  store: Pick<Store, "transact">;
  people: Pick<People, "setName" | "changePassword">;
  prove: Prove;
}

const readName = bodyOf(t.Object({ name: t.String() }));
const readPasswords = bodyOf(
  t.Object({
    present: PASSWORD,
    code: t.Optional(CODE),
    next: t.String(),
    endAppsAndKeys: t.Optional(t.Boolean()),
  }),
);

export function profileRoutes({ store, people, prove }: ProfileParts): Route[] {
  return [
    {
      // Body {name}.
      method: "PATCH",
      path: "/me",
      async run(asked) {
        const { name } = await readName(asked);
        store.transact((tx) => people.setName(tx, asked.session.caller.userId, name));
        return done();
      },
    },
    {
      // Body {present, code?, next, endAppsAndKeys?}. Ends the other sessions, and with endAppsAndKeys app passwords and API keys.
      method: "POST",
      path: "/me/password",
      async run(asked) {
        const { present, code, next, endAppsAndKeys = false } = await readPasswords(asked);
        const passwordHash = await hashPassword(next);
        const session = asked.session.id;
        const { headers } = await prove(asked, { password: present, code }, (tx, userId) =>
          people.changePassword(tx, userId, { passwordHash, session, endAppsAndKeys }),
        );
        return new Response(null, { status: 204, headers });
      },
    },
  ];
}
