/** Addresses that a workspace may not write to. */
import type { Suppression } from "../../admin/outbound.ts";
import * as outbound from "../../admin/outbound.ts";
import { dateTimeSchema, emailSchema, filledStringSchema, type Static, t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import { defineOperationCommand } from "../command-line.ts";
import { defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const SuppressionSchema = t.Object(
  {
    id: t.String(),
    address: emailSchema(),
    reason: t.String({ description: "For people to read: found by the server, or written by the person who added it" }),
    createdAt: dateTimeSchema(),
  },
  { $id: "Suppression" },
);

export type SuppressionView = Static<typeof SuppressionSchema>;

const toSuppressionView = ({ id, address, reason, createdAt }: Suppression): SuppressionView => ({
  id,
  address,
  reason,
  createdAt: toIsoTime(createdAt),
});

const common = { group: "Suppressions", audience: "admin", scope: "admin", whole: ["mailboxes"] } as const;

export const listSuppressions = defineOperation({
  ...common,
  name: "listSuppressions",
  method: "GET",
  path: "/suppressions",
  summary: "List the addresses that may not be written to, oldest first",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ suppressions: t.Array(SuppressionSchema), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "suppression list",
      summary: "List the addresses that may not be written to",
      columns: ["id", "address", "reason", "workspace", "createdAt"],
      sortBy: ["createdAt"],
    }),
  ],
  run({ caller: { workspaceId }, core }, { query }) {
    const list = {
      query: "suppressions",
      rowPosition: ({ createdAt, address }: Suppression) => ({ at: createdAt, id: address }),
      read: (after: { at: number; id: string } | undefined, limit: number) =>
        outbound.listSuppressions(core, workspaceId, { after, limit }),
    };
    const { page, nextCursor: next } = readListPage(list, query);
    return { suppressions: page.map(toSuppressionView), nextCursor: next };
  },
});

export const addSuppression = defineOperation({
  ...common,
  name: "addSuppression",
  method: "POST",
  path: "/suppressions",
  summary: "Refuse mail from the workspace to an address",
  description: "An address that is suppressed already keeps its reason and its time.",
  body: strictBody({
    address: emailSchema(),
    reason: t.Optional(filledStringSchema({ description: "For people to read, one line" })),
  }),
  example: { body: { address: "ben@example.net", reason: "Asked not to be written to" } },
  idempotent: true,
  success: 201,
  response: SuppressionSchema,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "suppression add",
      summary: "Refuse mail from a workspace to an address",
      arguments: { address: "ADDRESS" },
      options: { reason: { value: "REASON", summary: "Why, for people" } },
      input: ({ arguments: { address }, options: { reason = "Added by the operator" } }) => ({
        body: { address, reason },
      }),
    }),
  ],
  run: ({ act, core }, { body: { address, reason = "Added by an admin" } }) =>
    act((tx, { workspaceId }) => toSuppressionView(outbound.suppress(core, tx, { workspaceId, address, reason }))),
});

export const removeSuppression = defineOperation({
  ...common,
  name: "removeSuppression",
  method: "DELETE",
  path: "/suppressions/:id",
  summary: "Allow mail to an address again",
  params: BY_ID,
  success: 200,
  response: Done,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "suppression remove",
      arguments: { address: "ADDRESS" },
      target: "suppression",
      document: (_, { target: { id, address } }) => ({ id, address, removed: true }),
    }),
  ],
  run: ({ act }, { params: { id } }) =>
    act((tx, { workspaceId }) => {
      outbound.unsuppress(tx, workspaceId, id);
      return DONE;
    }),
});
