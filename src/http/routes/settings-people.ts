/**
 * Administration of people in the app, with passwords and second factors, which the API lacks. admin/people.ts decides which
 * roles may change which people.
 */

import { hashPassword, type People, ROLES } from "../../admin/people.ts";
import type { Serving } from "../../api/rest.ts";
import { personView, removePerson } from "../../operations/admin/people.ts";
import { oneOf, t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { UserView } from "../admin-views.ts";
import type { Route } from "../route.ts";
import { bodyOf, done, workspaceOf } from "./asked.ts";
import { settingsRoute } from "./operation-route.ts";

export interface PeopleParts extends Serving {
  store: Pick<Store, "transact">;
  people: People;
}

const readUser = bodyOf(
  t.Object({
    email: t.String(),
    name: t.String(),
    role: oneOf(ROLES),
    ownMailbox: t.Boolean(),
    password: t.Optional(t.String()),
  }),
);
const readChange = bodyOf(
  t.Object({ role: t.Optional(oneOf(ROLES)), password: t.Optional(t.String()), keepKeys: t.Optional(t.Boolean()) }),
);

export function peopleRoutes(parts: PeopleParts): Route[] {
  const { store, people } = parts;
  return [
    {
      method: "GET",
      path: "/people",
      run: (asked): { people: UserView[] } => ({ people: people.listUsers(workspaceOf(asked)).map(personView) }),
    },
    {
      // Without a password the person cannot sign in until an admin sets one.
      method: "POST",
      path: "/people",
      async run(asked): Promise<UserView> {
        const { password, ...given } = await readUser(asked);
        const workspaceId = workspaceOf(asked);
        const passwordHash = password === undefined ? undefined : await hashPassword(password);
        const by = asked.session.caller.userId;
        const { userId } = store.transact((tx) => {
          asked.requireConfirmed(tx);
          return people.addUser(tx, { ...given, workspaceId, passwordHash }, by);
        });
        return personView(people.userIn(workspaceId, userId));
      },
    },
    {
      // Body {role, password, keepKeys}, of which some may be missing. Another password ends their API keys, unless keepKeys.
      method: "PATCH",
      path: "/people/:id",
      async run(asked): Promise<UserView> {
        const { role, password, keepKeys } = await readChange(asked);
        const { id } = people.userIn(workspaceOf(asked), asked.params.id ?? "");
        const by = asked.session.caller.userId;
        const passwordHash = password === undefined ? undefined : await hashPassword(password);
        store.transact((tx) => {
          asked.requireConfirmed(tx);
          if (role !== undefined) people.setRole(tx, id, role, by);
          if (passwordHash !== undefined) people.replacePassword(tx, id, { passwordHash, keepKeys }, by);
        });
        return personView(people.userIn(workspaceOf(asked), id));
      },
    },
    {
      // Removes the second factor of a person who lost it.
      method: "DELETE",
      path: "/people/:id/second-factor",
      run(asked) {
        const { id } = people.userIn(workspaceOf(asked), asked.params.id ?? "");
        store.transact((tx) => {
          asked.requireConfirmed(tx);
          people.resetSecondFactor(tx, id, asked.session.caller.userId);
        });
        return done();
      },
    },
    settingsRoute(removePerson, parts),
  ];
}
