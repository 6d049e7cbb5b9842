/** A person's own app passwords, the other settings for a mail app, and what mail apps see. */
import * as passwords from "../../access/app-passwords.ts";
import * as people from "../../admin/people.ts";
import { readDisplayName } from "../../admin/typed-names.ts";
import { AppError } from "../../base/errors.ts";
import { stringEnum, t } from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { wantsLabelFolders } from "../../mailbox/imap/label-folders.ts";
import { APP_PASSWORD_ACCESS } from "../../store/schema.ts";
import { defineAppOperation, hasMailProfile } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

/** Newest first. */
export const listAppPasswords = defineAppOperation({
  name: "listAppPasswords",
  audience: "person",
  method: "GET",
  path: "/app-passwords",
  run: ({ core, caller, mailApps, signsProfiles }) => ({
    appPasswords: passwords
      .listAppPasswords(core.db, caller.userId)
      .map(({ id, name, createdAt, lastUsedAt, access }) => ({
        id,
        name,
        access,
        createdAt: toIsoTime(createdAt),
        lastUsedAt: toIsoTimeOrNull(lastUsedAt),
      })),
    labelFolders: wantsLabelFolders(core.db, caller.userId),
    mailApps: { ...mailApps, profile: hasMailProfile(mailApps) && { signed: signsProfiles() } },
  }),
});

/** The password is told here and never again. `access`: `all` if it is left out. */
export const createAppPassword = defineAppOperation({
  name: "createAppPassword",
  audience: "person",
  method: "POST",
  path: "/app-passwords",
  body: t.Object({ name: t.String(), access: t.Optional(stringEnum(APP_PASSWORD_ACCESS)) }),
  run({ core, caller: { userId }, requireConfirmed }, { body }) {
    const name = readDisplayName("the app", body.name);
    return core.store.transact((tx) => {
      requireConfirmed(tx);
      return passwords.createAppPassword(tx, core.runtime, { userId, name, access: body.access ?? "all" });
    });
  },
});

export const revokeAppPassword = defineAppOperation({
  name: "revokeAppPassword",
  audience: "person",
  method: "DELETE",
  path: "/app-passwords/:id",
  params: BY_ID,
  run({ core, caller }, { params: { id } }) {
    if (!core.store.transact((tx) => passwords.revokeAppPassword(tx, caller.userId, id))) {
      throw new AppError("not_found", "You have no such app password");
    }
  },
});

/** `labelFolders`: mail apps see labels as mailboxes, too. */
export const setMailAppPreferences = defineAppOperation({
  name: "setMailAppPreferences",
  audience: "person",
  method: "PATCH",
  path: "/me/mail-apps",
  body: t.Object({ labelFolders: t.Boolean() }),
  run({ core, caller }, { body: { labelFolders } }) {
    core.store.transact((tx) => people.setLabelFolders(tx, caller.userId, labelFolders));
  },
});
