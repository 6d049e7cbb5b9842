/** The labels of one mailbox in the app: listing them, their names and their colours. */
import { nullable, stringEnum, t } from "../../base/json-schema.ts";
import { listLabels, replaceLabel, setLabelColour } from "../../mailbox/state/labels.ts";
import { reachedMailbox } from "../../mailbox/state/mailboxes.ts";
import { LabelName } from "../../mailbox/state/views.ts";
import { LABEL_COLOURS } from "../../store/schema.ts";
import { defineAppOperation } from "../operation.ts";

const MOST_LABELS = 500;

/** `mailbox`: id, address or alias address. */
const IN_MAILBOX = { mailbox: t.String() };
/** A label, in upper or lower case. */
const NAMED = t.Object({ label: t.String() });

export const completeLabels = defineAppOperation({
  name: "completeLabels",
  audience: "person",
  method: "GET",
  path: "/labels",
  query: t.Object(IN_MAILBOX),
  run: ({ caller, core }, { query }) => ({ labels: listLabels(core, caller, query.mailbox, MOST_LABELS) }),
});

/** Changes a label on every conversation of the mailbox. */
export const changeLabel = defineAppOperation({
  name: "changeLabel",
  audience: "person",
  method: "PATCH",
  path: "/labels/:label",
  params: NAMED,
  body: t.Object({
    ...IN_MAILBOX,
    name: t.Optional(LabelName),
    colour: t.Optional(nullable(stringEnum(LABEL_COLOURS), { description: "null: none" })),
  }),
  async run({ caller, core }, { params: { label }, body: { mailbox, name, colour } }) {
    if (colour !== undefined) {
      core.store.transact((tx) => setLabelColour(tx, caller, { mailbox, label, colour }));
    }
    if (name === undefined) return { threads: 0 };
    const mailboxId = reachedMailbox(core.db, caller, mailbox);
    return { threads: await replaceLabel(core, caller, { label, replacement: name, mailboxId }) };
  },
});

/** Removes a label from every conversation of the mailbox. */
export const removeLabel = defineAppOperation({
  name: "removeLabel",
  audience: "person",
  method: "DELETE",
  path: "/labels/:label",
  params: NAMED,
  query: t.Object(IN_MAILBOX),
  run: async ({ caller, core }, { params, query }) => ({
    threads: await replaceLabel(core, caller, {
      label: params.label,
      mailboxId: reachedMailbox(core.db, caller, query.mailbox),
    }),
  }),
});
