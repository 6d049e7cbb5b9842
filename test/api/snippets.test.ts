/** Examples of all operations in several languages (docs/api-examples.md); snippets.system.test.ts runs them. */
import { expect, test } from "bun:test";
import { examplesPage } from "../../packaging/api-examples.ts";
import { listPathPlaceholders } from "../../src/api/reference/snippets.ts";
import { textOf } from "../harness/doc-pages.ts";

test("the page of examples is as the operations make it: bun packaging/api-examples.ts", () => {
  expect(textOf("docs/api-examples.md")).toBe(examplesPage());
});

test("a placeholder says of what it is the id", () => {
  expect(listPathPlaceholders("/mailboxes/{id}/grants/{userId}")).toEqual({ id: "MAILBOX_ID", userId: "USER_ID" });
  expect(listPathPlaceholders("/people/{id}")).toEqual({ id: "PERSON_ID" });
  expect(listPathPlaceholders("/queue/{id}/retry")).toEqual({ id: "QUEUE_ID" });
  expect(listPathPlaceholders("/threads")).toEqual({});
});
