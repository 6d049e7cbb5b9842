/** Web Push in the browser of a session (rules: Push). */
import { requireReach } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import { readDestination } from "../../net/destination.ts";
import { isPushTarget } from "../../push/encryption.ts";
import { findPushChoice, findStoredPushKeys, subscribeToPush, unsubscribeFromPush } from "../../push/subscriptions.ts";
import { defineAppOperation } from "../operation.ts";

const key = t.String({ maxLength: 200 });

export const getPush = defineAppOperation({
  name: "getPush",
  audience: "person",
  method: "GET",
  path: "/me/push",
  run: ({ core, session }) => ({
    publicKey: findStoredPushKeys(core.db)?.publicKey ?? null,
    choice: findPushChoice(core.db, session.id) ?? null,
  }),
});

/** Subscribes the browser to notifications of these mailboxes. `details`: they tell sender and subject. */
export const setPush = defineAppOperation({
  name: "setPush",
  audience: "person",
  method: "POST",
  path: "/me/push",
  body: t.Object({
    endpoint: t.String({ maxLength: 1_000 }),
    p256dh: key,
    auth: key,
    mailboxes: t.Array(t.String({ maxLength: 100 }), { minItems: 1, maxItems: 100, uniqueItems: true }),
    details: t.Boolean(),
  }),
  run({ core, caller, session }, { body }) {
    requirePushService(body.endpoint);
    if (!isPushTarget(body)) throw new AppError("unprocessable", "The browser gave no encryption keys");
    const { userId } = caller;
    core.store.transact((tx) => {
      for (const id of body.mailboxes) requireReach(tx, caller, id);
      subscribeToPush(tx, { ...body, sessionId: session.id, userId, createdAt: core.now() });
    });
  },
});

export const endPush = defineAppOperation({
  name: "endPush",
  audience: "person",
  method: "DELETE",
  path: "/me/push",
  run({ core, session }) {
    core.store.transact((tx) => unsubscribeFromPush(tx, session.id));
  },
});

/** Addresses that a name leads to are checked at each request. @throws AppError unprocessable */
function requirePushService(endpoint: string): void {
  try {
    readDestination(endpoint, []);
  } catch {
    throw new AppError("unprocessable", "The browser named no public push service");
  }
  if (!endpoint.startsWith("https://"))
    throw new AppError("unprocessable", "The address of a push service must begin with https://");
}
