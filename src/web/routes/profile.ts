/** What everybody settles for themselves: the name they are shown by, and their password. */
import type { SignIn } from "../../access/sign-in.ts";
import { t } from "../../api/json-schema.ts";
import { AppError } from "../../errors.ts";
import { hashPassword, type People } from "../../settings/people.ts";
import type { Store } from "../../store/store.ts";
import type { Route } from "../route.ts";
import { bodyOf, done } from "./asked.ts";

export interface ProfileParts {
  store: Pick<Store, "transact">;
  people: Pick<People, "setName" | "setPassword">;
  identity: { signIn: Pick<SignIn, "again"> };
}

const readName = bodyOf(t.Object({ name: t.String() }));
const readPasswords = bodyOf(t.Object({ present: t.String({ maxLength: 1_024 }), next: t.String() }));

export function profileRoutes({ store, people, identity }: ProfileParts): Route[] {
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
      // Body {present, next}: who only found the browser open is as slow at guessing as at the door. Ends the other sessions.
      method: "POST",
      path: "/me/password",
      async run(asked) {
        const { present, next } = await readPasswords(asked);
        const { session, source } = asked;
        const { userId, email } = session.caller;
        const proved = await identity.signIn.again({ username: email, secret: present, source });
        const passwordHash = await hashPassword(next);
        store.transact((tx) => {
          if (!proved?.present()) throw new AppError("forbidden", "The present password is not right");
          people.setPassword(tx, userId, passwordHash, session.id);
        });
        return done();
      },
    },
  ];
}
