/** A person's own profile: display name, password, and how long what they send can be undone. */
import * as people from "../../admin/people.ts";
import { hashNewPassword } from "../../admin/people.ts";
import { t } from "../../base/json-schema.ts";
import { defineAppOperation } from "../operation.ts";
import { CODE, PASSWORD, proveIdentity } from "./proof.ts";

export const changeName = defineAppOperation({
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
export const changePassword = defineAppOperation({
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
    const passwordHash = await hashNewPassword(next);
    await proveIdentity(context, { password: present, code }, (tx, userId) =>
      people.changePassword(core, tx, userId, { passwordHash, session: session.id, endAppsAndKeys }),
    );
  },
});

export const getSendingPreferences = defineAppOperation({
  name: "getSendingPreferences",
  audience: "person",
  method: "GET",
  path: "/me/sending",
  run: ({ core, caller }) => ({ undoSeconds: people.undoSeconds(core, caller.userId) }),
});

/** `undoSeconds`: 0 (not at all), 5, 10, 20 or 30. */
export const setSendingPreferences = defineAppOperation({
  name: "setSendingPreferences",
  audience: "person",
  method: "PATCH",
  path: "/me/sending",
  body: t.Object({ undoSeconds: t.Integer() }),
  run({ core, caller }, { body: { undoSeconds } }) {
    core.store.transact((tx) => people.setUndoSeconds(tx, caller.userId, undoSeconds));
  },
});
