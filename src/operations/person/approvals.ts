/** Messages of API keys that wait for a person, as the app shows them; it decides by admin/hold-administration.ts. */
import { keysById } from "../../access/credentials.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import * as drafts from "../../compose/write-drafts.ts";
import type { HeldMessage } from "../../outbound/approval.ts";
import * as approvals from "../../outbound/approval.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

const MOST_LISTED = 100;

/** `key`: the name of the key that sent it; null for one that is gone. `answers`: id of a conversation. */
const summary = (
  { emailId, subject, snippet, mailbox, keyId, ...hold }: HeldMessage,
  keys: ReturnType<typeof keysById>,
) => ({
  id: emailId,
  subject,
  snippet,
  mailbox: mailbox.address,
  answers: hold.answers,
  key: keys.get(keyId)?.name ?? null,
  since: toIsoTime(hold.since),
  sendAt: toIsoTimeOrNull(hold.sendAt),
});

/** Lists what the person may approve, the longest waiting first. `more`: there are more than these. */
export const listApprovals = defineAppOperation({
  name: "listApprovals",
  audience: "person",
  method: "GET",
  path: "/approvals",
  run({ core, caller }) {
    const held = approvals.list(core, caller, { most: MOST_LISTED + 1 });
    const keys = keysById(
      core.db,
      held.map(({ keyId }) => keyId),
    );
    return {
      waiting: held.slice(0, MOST_LISTED).map((one) => summary(one, keys)),
      more: held.length > MOST_LISTED,
    };
  },
});

/** Answers a message that was not sent, whatever was decided about it, with every recipient. */
export const getApproval = defineAppOperation({
  name: "getApproval",
  audience: "person",
  method: "GET",
  path: "/approvals/:id",
  params: BY_ID,
  run({ core, caller }, { params: { id } }) {
    const held = approvals.getHeld(core, caller, id);
    const keys = keysById(core.db, [held.keyId]);
    const key = keys.get(held.keyId);
    const { state, reason, recipients, decider, decidedAt } = held;
    return {
      ...summary(held, keys),
      ...{ state, reason, recipients, decider },
      decidedAt: toIsoTimeOrNull(decidedAt),
      /** Null if the key's person has left. */
      agent: key
        ? { name: key.name, person: key.userEmail, policy: key.policy, isRevoked: key.revokedAt !== null }
        : null,
    };
  },
});

/** Makes a draft of the person's own with what the message has. */
export const copyHeld = defineAppOperation({
  name: "copyHeld",
  audience: "person",
  method: "POST",
  path: "/approvals/:id/copy",
  params: BY_ID,
  success: 201,
  run: ({ core, caller }, { params: { id } }) => drafts.copyHeldToDraft(core, caller, id),
});
