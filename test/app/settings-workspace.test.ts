/** The lists of the workspace's settings, which the server gives in pages, oldest first. */
import { expect, spyOn, test } from "bun:test";
import { QueryClient } from "@tanstack/react-query";
import { domainsQuery } from "../../src/app/lib/queries.ts";
import { SETTING_HEADINGS } from "../../src/app/pages/settings/setting-headings.ts";
import { mailboxesSettingsQuery, peopleQuery } from "../../src/app/pages/settings/settings-workspace.ts";
import { SETTINGS } from "../../src/store/settings.ts";

test.each([
  ["people", "email", peopleQuery],
  ["mailboxes", "address", mailboxesSettingsQuery],
  ["domains", "name", domainsQuery],
] as const)("all %s are listed by %s, whatever page they come on", async (list, key, query) => {
  const pages = [
    { [list]: [{ [key]: "kim" }, { [key]: "bea" }], nextCursor: "c1" },
    { [list]: [{ [key]: "ann" }, { [key]: "li" }], nextCursor: null },
  ];
  using fetching = spyOn(globalThis, "fetch");
  for (const page of pages) fetching.mockResolvedValueOnce(Response.json(page));
  const shown = await new QueryClient().fetchQuery<object[]>(query as never);
  expect(shown).toEqual(["ann", "bea", "kim", "li"].map((name) => ({ [key]: name })));
  expect(fetching.mock.calls.map(([url]) => url)).toEqual([
    `/app/settings/${list}?limit=100`,
    `/app/settings/${list}?limit=100&cursor=c1`,
  ]);
});

test("each group of the server's settings has a heading, and each heading a group", () => {
  const groups = new Set(Object.keys(SETTINGS).map((name) => name.split(".")[0]));
  expect(Object.keys(SETTING_HEADINGS).sort()).toEqual([...groups].sort() as string[]);
});
