/** A person's own profile: display name, password, and how long what they send can be undone. */
import * as people from "../../admin/people.ts";
import { hashPassword } from "../../admin/people.ts";
import { t } from "../../base/json-schema.ts";
import { appOperation } from "../operation.ts";
import { CODE, PASSWORD, prove } from "./proof.ts";

export const changeName = appOperation({
  name: "changeName",
  audience: "person",
  method: "PATCH",
  path: "/me",
  body: t.Object({ name: t.String() }),
  run({ core, caller }, { body: { name } }) {
    core.store.transact((tx) => people.setName(tx, caller.userId, name));
  },
});

/** Ends the other sessions, and with `endAppsAndKeys` app passwords and API keys. */
export const changePassword = appOperation({
  name: "changePassword",
  audience: "person",
  method: "POST",
  path: "/me/password",
  body: t.Object({
    present: PASSWORD,
    code: t.Optional(CODE),
    next: t.String(),
    endAppsAndKeys: t.Optional(t.Boolean()),
  }),
  async run(context, { body: { present, code, next, endAppsAndKeys = false } }) {
    const { core, session } = context;
    const passwordHash = await hashPassword(next);
    await prove(context, { password: present, code }, (tx, userId) =>
      people.changePassword(core, tx, userId, { passwordHash, session: session.id, endAppsAndKeys }),
    );
  },
});

export const getSendingPreferences = appOperation({
  name: "getSendingPreferences",
  audience: "person",
  method: "GET",
  path: "/me/sending",
  run: ({ core, caller }) => ({ undoSeconds: people.undoSeconds(core, caller.userId) }),
});

/** `undoSeconds`: 0 (not at all), 5, 10, 20 or 30. */
export const setSendingPreferences = appOperation({
  name: "setSendingPreferences",
  audience: "person",
  method: "PATCH",
  path: "/me/sending",
  body: t.Object({ undoSeconds: t.Integer() }),
  run({ core, caller }, { body: { undoSeconds } }) {
    core.store.transact((tx) => people.setUndoSeconds(tx, caller.userId, undoSeconds));
  },
});
