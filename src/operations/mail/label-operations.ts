/** Labels, in all mailboxes that the caller reaches (rules: Labels over the API). */
import { filledStringSchema, t } from "../../base/json-schema.ts";
import type { LabelInReach } from "../../mailbox/state/labels.ts";
import { labelsInReach, replaceLabel } from "../../mailbox/state/labels.ts";
import { LabelName } from "../../mailbox/state/views.ts";
import { defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";

const common = { group: "Labels", audience: "key" } as const;
const byName = t.Object({ name: filledStringSchema({ description: "Of the label, in any case" }) });
const Changed = t.Object({ threads: t.Integer({ description: "Conversations that were changed" }) });

export const listLabels = defineOperation({
  ...common,
  name: "listLabels",
  method: "GET",
  path: "/labels",
  scope: "read",
  summary: "List labels with the number of their conversations, by name",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({
    labels: t.Array(
      t.Object(
        {
          name: t.String({ description: "As most of its conversations have it" }),
          threads: t.Integer({ description: "Conversations in any folder" }),
        },
        { $id: "Label" },
      ),
    ),
    nextCursor,
  }),
  errors: [400, 401, 403, 404, 429],
  run({ caller, core }, { query }) {
    const list = {
      query: "labels",
      rowPosition: ({ key }: LabelInReach) => ({ at: 0, id: key }),
      read: (after: { id: string } | undefined, limit: number) =>
        labelsInReach(core, caller, { after: after?.id, limit }),
    };
    const { page, nextCursor: next } = readListPage(list, query);
    return { labels: page.map(({ label: name, threads }) => ({ name, threads })), nextCursor: next };
  },
});

export const renameLabel = defineOperation({
  ...common,
  name: "renameLabel",
  method: "PATCH",
  path: "/labels/:name",
  scope: "write",
  summary: "Rename a label everywhere",
  description:
    "On every conversation of the mailboxes that the key manages; one that has the new name already keeps it once. Conversations are changed in portions: after a failure, the same request does the rest.",
  params: byName,
  body: t.Object({ name: LabelName }, { additionalProperties: false }),
  example: { body: { name: "Invoices" } },
  success: 200,
  response: Changed,
  errors: [400, 401, 403, 404, 413, 429],
  run: async ({ caller, core }, { params, body }) => ({
    threads: await replaceLabel(core, caller, { label: params.name, replacement: body.name }),
  }),
});

export const deleteLabel = defineOperation({
  ...common,
  name: "deleteLabel",
  method: "DELETE",
  path: "/labels/:name",
  scope: "write",
  summary: "Remove a label everywhere",
  description: "From every conversation of the mailboxes that the key manages, in portions.",
  params: byName,
  success: 200,
  response: Changed,
  errors: [400, 401, 403, 404, 429],
  run: async ({ caller, core }, { params }) => ({ threads: await replaceLabel(core, caller, { label: params.name }) }),
});
