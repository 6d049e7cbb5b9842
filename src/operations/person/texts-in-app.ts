/** The signature and templates of a mailbox, for those who send from it (rules: Signatures and templates). */
import { t } from "../../base/json-schema.ts";
import {
  dropTemplate,
  getSignatureAndTemplates,
  keepTemplate,
  requireMayEditMailboxTexts,
  Signature,
  setMailboxSignature,
  Template,
} from "../../mailbox/state/texts.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

/** A template, whose characters JSON may write in six bytes each. */
const LARGEST_TEMPLATE = 262_144;

export const getTexts = defineAppOperation({
  name: "getTexts",
  audience: "person",
  method: "GET",
  path: "/mailboxes/:id/texts",
  params: BY_ID,
  run: ({ core, caller }, { params: { id } }) => getSignatureAndTemplates(core.db, caller, id),
});

export const changeSignature = defineAppOperation({
  name: "changeSignature",
  audience: "person",
  method: "PATCH",
  path: "/mailboxes/:id/signature",
  params: BY_ID,
  body: t.Object({ text: Signature }),
  run: ({ core, caller }, { params: { id }, body: { text } }) =>
    core.store.transact((tx) => {
      requireMayEditMailboxTexts(tx, caller, id);
      return setMailboxSignature(tx, id, text);
    }),
});

/** `replaces`: the name of the template that it takes the place of. */
export const saveTemplate = defineAppOperation({
  name: "saveTemplate",
  audience: "person",
  method: "POST",
  path: "/mailboxes/:id/templates",
  params: BY_ID,
  body: t.Object({ ...Template.properties, replaces: t.Optional(t.String()) }),
  largestBody: LARGEST_TEMPLATE,
  run: ({ core, caller }, { params: { id }, body: { replaces, ...template } }) =>
    core.store.transact((tx) => {
      requireMayEditMailboxTexts(tx, caller, id);
      return keepTemplate(tx, id, template, replaces);
    }),
});

export const deleteTemplate = defineAppOperation({
  name: "deleteTemplate",
  audience: "person",
  method: "DELETE",
  path: "/mailboxes/:id/templates/:name",
  params: t.Object({ id: t.String(), name: t.String() }),
  run: ({ core, caller }, { params: { id, name } }) =>
    core.store.transact((tx) => {
      requireMayEditMailboxTexts(tx, caller, id);
      return dropTemplate(tx, id, name);
    }),
});
