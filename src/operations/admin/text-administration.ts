/** The signature and templates of a mailbox (rules: Signatures and templates). */
import { t } from "../../base/json-schema.ts";
import {
  readSignatureAndTemplates,
  Signature,
  setMailboxSignature,
  setTemplates,
  Template,
} from "../../mailbox/state/texts.ts";
import { defineOperation } from "../operation.ts";
import { BY_ID, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";
import { getAdministeredMailbox } from "./mailbox-administration.ts";

const common = { group: "Mailboxes", audience: "admin", scope: "admin", params: BY_ID, success: 200 } as const;
const SignatureAnswer = t.Object({ text: Signature });
const TemplatesAnswer = t.Object({ templates: t.Array(Template) });
/** Fifty templates, whose characters JSON may write in six bytes each. */
const LARGEST_TEMPLATES = 8 * 1_048_576;
const LARGEST_SIGNATURE = 65_536;

export const getSignature = defineOperation({
  ...common,
  name: "getSignature",
  method: "GET",
  path: "/mailboxes/:id/signature",
  summary: "Show the signature of a mailbox",
  response: SignatureAnswer,
  errors: READ_ERRORS,
  run({ caller, core }, { params: { id } }) {
    getAdministeredMailbox(core, caller, id);
    return { text: readSignatureAndTemplates(core.db, id).signature };
  },
});

export const putSignature = defineOperation({
  ...common,
  name: "putSignature",
  method: "PUT",
  path: "/mailboxes/:id/signature",
  summary: "Replace the signature of a mailbox",
  description:
    "The app puts it below messages that people begin there. Messages that programs send are left as they are.",
  body: strictBody({ text: Signature }),
  largestBody: LARGEST_SIGNATURE,
  example: { body: { text: "Ada Okafor\nLantern Works" } },
  response: SignatureAnswer,
  errors: WRITE_ERRORS,
  run: ({ act, core }, { params: { id }, body: { text } }) =>
    act((tx, caller) => {
      getAdministeredMailbox(core, caller, id);
      return { text: setMailboxSignature(tx, id, text).signature };
    }),
});

export const getTemplates = defineOperation({
  ...common,
  name: "getTemplates",
  method: "GET",
  path: "/mailboxes/:id/templates",
  summary: "List the templates of a mailbox",
  response: TemplatesAnswer,
  errors: READ_ERRORS,
  run({ caller, core }, { params: { id } }) {
    getAdministeredMailbox(core, caller, id);
    return { templates: readSignatureAndTemplates(core.db, id).templates };
  },
});

export const putTemplates = defineOperation({
  ...common,
  name: "putTemplates",
  method: "PUT",
  path: "/mailboxes/:id/templates",
  summary: "Replace the templates of a mailbox, in the order in which the app offers them",
  body: strictBody({ templates: t.Array(Template) }),
  largestBody: LARGEST_TEMPLATES,
  example: { body: { templates: [{ name: "Out of stock", subject: "Your order", text: "We are out of lamps." }] } },
  response: TemplatesAnswer,
  errors: WRITE_ERRORS,
  run: ({ act, core }, { params: { id }, body: { templates } }) =>
    act((tx, caller) => {
      getAdministeredMailbox(core, caller, id);
      return { templates: setTemplates(tx, id, templates).templates };
    }),
});
