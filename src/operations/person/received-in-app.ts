/**
 * Operations for a message that a person received: leave its list, answer its invitation, always see the images of its sender
 * (rules: Unsubscribe, Invitations, Images of a sender).
 */
import { AppError } from "../../base/errors.ts";
import { stringEnum, t } from "../../base/json-schema.ts";
import * as invitations from "../../compose/invitations.ts";
import { wayToUnsubscribe } from "../../compose/unsubscribe.ts";
import { listMessageWarnings } from "../../mailbox/filing/warnings.ts";
import {
  distrustImages,
  isImageSenderTrusted,
  listImageSenders,
  receivedMessage,
  trustImages,
} from "../../mailbox/state/received.ts";
import { INVITATION_ANSWERS } from "../../store/schema.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

/** `apartIn`: where a mail app moved it alone. `images`: always shown, or the person may choose that (DMARC proved the sender), or asked for each time. */
export const getReceived = defineAppOperation({
  name: "getReceived",
  audience: "person",
  method: "GET",
  path: "/messages/:id/received",
  params: BY_ID,
  run({ core, caller }, { params }) {
    const message = receivedMessage(core.db, caller, params.id);
    const sender = message?.provenSender;
    const unsubscribe = message && wayToUnsubscribe(core, message);
    const images =
      sender === undefined ? "asked" : isImageSenderTrusted(core.db, caller.userId, sender) ? "always" : "offered";
    return {
      images: images as "asked" | "offered" | "always",
      ...(unsubscribe && { unsubscribe }),
      ...(message?.apartIn && { apartIn: message.apartIn }),
    };
  },
});

/** Lists the warnings for the reader of a message. */
export const getWarnings = defineAppOperation({
  name: "getWarnings",
  audience: "person",
  method: "GET",
  path: "/messages/:id/warnings",
  params: BY_ID,
  run: async ({ caller, core }, { params }) => ({ warnings: await listMessageWarnings(core, caller, params.id) }),
});

export const unsubscribe = defineAppOperation({
  name: "unsubscribe",
  audience: "person",
  method: "POST",
  path: "/messages/:id/unsubscribe",
  params: BY_ID,
  run: ({ caller, unsubscribing }, { params }) => unsubscribing.leave(caller, params.id),
});

export const getInvitation = defineAppOperation({
  name: "getInvitation",
  audience: "person",
  method: "GET",
  path: "/messages/:id/invitation",
  params: BY_ID,
  run: async ({ core, caller }, { params }) => ({
    invitation: (await invitations.findInvitation(core, caller, params.id)) ?? null,
  }),
});

export const answerInvitation = defineAppOperation({
  name: "answerInvitation",
  audience: "person",
  method: "POST",
  path: "/messages/:id/invitation",
  params: BY_ID,
  body: t.Object({ answer: stringEnum(INVITATION_ANSWERS) }),
  run: async ({ core, caller }, { params, body }) => ({
    invitation: await invitations.answerInvitation(core, caller, params.id, body.answer),
  }),
});

/** Always shows, or no longer, the images of the sender of a message. */
export const setImagesOfSender = defineAppOperation({
  name: "setImagesOfSender",
  audience: "person",
  method: "POST",
  path: "/messages/:id/images",
  params: BY_ID,
  body: t.Object({ always: t.Boolean() }),
  run({ core, caller }, { params, body: { always } }) {
    const sender = receivedMessage(core.db, caller, params.id)?.provenSender;
    if (sender === undefined) throw new AppError("conflict", "We couldn't verify the sender of this message");
    const { userId } = caller;
    core.store.transact((tx) =>
      always ? trustImages(tx, { userId, sender, now: core.now() }) : distrustImages(tx, userId, sender),
    );
  },
});

export const listImagesShown = defineAppOperation({
  name: "listImagesShown",
  audience: "person",
  method: "GET",
  path: "/me/image-senders",
  run: ({ core, caller }) => ({ senders: listImageSenders(core.db, caller.userId) }),
});

export const hideImagesOf = defineAppOperation({
  name: "hideImagesOf",
  audience: "person",
  method: "DELETE",
  path: "/me/image-senders/:sender",
  params: t.Object({ sender: t.String({ maxLength: 320 }) }),
  run({ core, caller }, { params }) {
    core.store.transact((tx) => distrustImages(tx, caller.userId, params.sender));
  },
});
