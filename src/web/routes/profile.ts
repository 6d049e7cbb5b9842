/** What everybody settles for themselves: the name they are shown by, and their password. */
import type { TrySignIn } from "../../access/sign-in.ts";
import { readJson } from "../../api/body.ts";
import { t } from "../../api/json-schema.ts";
import { checkOf } from "../../api/shape.ts";
import { AppError } from "../../errors.ts";
import { hashPassword, type People } from "../../settings/people.ts";
import type { Store } from "../../store/store.ts";
import type { Route } from "../route.ts";

export interface ProfileParts {
  store: Pick<Store, "transact">;
  people: Pick<People, "setName" | "setPassword">;
  trySignIn: TrySignIn;
}

const MOST_BODY_BYTES = 16_384;
const checkName = checkOf(t.Object({ name: t.String() }));
const checkPasswords = checkOf(t.Object({ present: t.String({ maxLength: 1_024 }), next: t.String() }));

export function profileRoutes({ store, people, trySignIn }: ProfileParts): Route[] {
  return [
    {
      // Body {name}.
      method: "PATCH",
      path: "/me",
      async run({ request, session }) {
        const given = await readJson(request, MOST_BODY_BYTES);
        checkName(given);
        store.transact((tx) => people.setName(tx, session.caller.userId, (given as { name: string }).name));
        return new Response(null, { status: 204 });
      },
    },
    {
      // Body {present, next}: who only found the browser open is as slow at guessing as at the door. Ends the other sessions.
      method: "POST",
      path: "/me/password",
      async run({ request, session, source }) {
        const given = await readJson(request, MOST_BODY_BYTES);
        checkPasswords(given);
        const { present, next } = given as { present: string; next: string };
        const { userId, email } = session.caller;
        const proved = await trySignIn({ username: email, secret: present, source });
        const passwordHash = await hashPassword(next);
        store.transact((tx) => {
          if (!proved?.present()) throw new AppError("forbidden", "The present password is not right");
          people.setPassword(tx, userId, passwordHash, session.id);
        });
        return new Response(null, { status: 204 });
      },
    },
  ];
}
