/** The labels of one mailbox in the app: listing them, their names and their colours. */

import { nullable, oneOf, t } from "../../base/json-schema.ts";
import { LabelName } from "../../mailbox/views.ts";
import { LABEL_COLOURS } from "../../store/schema.ts";
import { appOperation } from "../operation.ts";

const MOST_LABELS = 500;

/** `mailbox`: id, address or alias address. */
const IN_MAILBOX = { mailbox: t.String() };
/** In any case. */
const NAMED = t.Object({ label: t.String() });

export const completeLabels = appOperation({
  name: "completeLabels",
  audience: "person",
  method: "GET",
  path: "/labels",
  query: t.Object(IN_MAILBOX),
  run: ({ caller, mailbox }, { query }) => ({ labels: mailbox.listLabels(caller, query.mailbox, MOST_LABELS) }),
});

/** Changes a label on every conversation of the mailbox. */
export const changeLabel = appOperation({
  name: "changeLabel",
  audience: "person",
  method: "PATCH",
  path: "/labels/:label",
  params: NAMED,
  body: t.Object({
    ...IN_MAILBOX,
    name: t.Optional(LabelName),
    colour: t.Optional(nullable(oneOf(LABEL_COLOURS), { description: "null: none" })),
  }),
  async run({ caller, mailbox }, { params, body: { mailbox: of, name, colour } }) {
    if (colour !== undefined) mailbox.setLabelColour(caller, of, params.label, colour);
    return { threads: name === undefined ? 0 : await mailbox.replaceLabelIn(caller, of, params.label, name) };
  },
});

/** Removes a label from every conversation of the mailbox. */
export const removeLabel = appOperation({
  name: "removeLabel",
  audience: "person",
  method: "DELETE",
  path: "/labels/:label",
  params: NAMED,
  query: t.Object(IN_MAILBOX),
  run: async ({ caller, mailbox }, { params, query }) => ({
    threads: await mailbox.replaceLabelIn(caller, query.mailbox, params.label),
  }),
});
