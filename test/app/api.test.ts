/** The client of the operations: where it puts what a call is given. */
import { expect, spyOn, test } from "bun:test";
import { api, fetchAllPages, urlTo } from "../../src/app/lib/api-client.ts";

/** Answers the next requests with these, and gives the request of a call. */
async function requestOf(call: () => Promise<unknown>, answer: unknown = {}) {
  // The browser's fetch, which knows the page that a path belongs to.
  using fetched = spyOn(globalThis, "fetch");
  fetched.mockResolvedValueOnce(Response.json(answer));
  await call();
  const [url, { method, body } = {}] = fetched.mock.lastCall ?? [];
  return { method, url, ...(typeof body === "string" && { body: JSON.parse(body) }) };
}

test("parameters go into the path, and what else a reading operation takes into the query", async () => {
  expect(await requestOf(() => api.getThread({ id: "a/b?", html: false }))).toEqual({
    method: "GET",
    url: "/app/threads/a%2Fb%3F?html=false",
  });
  expect(await requestOf(() => api.removeLabel({ label: "to do", mailbox: "a@b.test" }))).toEqual({
    method: "DELETE",
    url: "/app/labels/to%20do?mailbox=a%40b.test",
  });
  expect(await requestOf(() => api.listThreads({ q: "", label: undefined, limit: 5 }))).toMatchObject({
    url: "/app/threads?limit=5",
  });
});

test("what else an operation that changes something takes is its body, which is never missing", async () => {
  expect(await requestOf(() => api.changeKey({ id: "key_1", paused: true }))).toEqual({
    method: "PATCH",
    url: "/app/settings/keys/key_1",
    body: { paused: true },
  });
  expect(await requestOf(() => api.signOut())).toEqual({ method: "POST", url: "/app/sign-out", body: {} });
});

test("an input is not changed", async () => {
  const input = { id: "key_1", paused: true };
  await requestOf(() => api.changeKey(input));
  expect(input).toEqual({ id: "key_1", paused: true });
});

test("links have the same form", () => {
  expect(urlTo("attachFile", { id: "drf_1", name: "a b.pdf" })).toBe("/app/drafts/drf_1/attachments?name=a+b.pdf");
  expect(urlTo("showMessage", { id: "msg_1", images: undefined })).toBe("/app/messages/msg_1/frame");
});

test("a list is read to its end", async () => {
  using fetched = spyOn(globalThis, "fetch");
  for (const page of [
    { suppressions: [1, 2], nextCursor: "c" },
    { suppressions: [3], nextCursor: null },
  ]) {
    fetched.mockResolvedValueOnce(Response.json(page));
  }
  expect(await fetchAllPages(api.listSuppressions, "suppressions")).toEqual([1, 2, 3] as never);
  expect(fetched.mock.calls.map(([url]) => url)).toEqual([
    "/app/settings/suppressions?limit=100",
    "/app/settings/suppressions?limit=100&cursor=c",
  ]);
});
