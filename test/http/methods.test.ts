/** A known path with another method is 405 `bad_request` with Allow (rules: Errors), outside of the API, too. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createMethodFinder } from "../../src/api/methods.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

let booted: Booted;
beforeAll(async () => {
  booted = await boot();
}, 120_000);

const READING = "GET, HEAD";
const ask = (path: string, method: string) => fetch(booted.http + path, { method, redirect: "manual" });

test.each([
  ["/", READING],
  ["/mail/inbox", READING],
  ["/settings/keys", READING],
  ["/oauth/authorize", READING],
  ["/service-worker.js", READING],
  ["/manifest.webmanifest", READING],
  ["/icon-192.png", READING],
  ["/healthz", READING],
  ["/metrics", READING],
  ["/.well-known/oauth-protected-resource/api/mcp", READING],
  ["/.well-known/oauth-authorization-server", READING],
  ["/app/live", READING],
  ["/app/threads", READING],
  ["/app/threads/x", "GET, HEAD, PATCH"],
  ["/app/sign-in", "POST"],
])("%s takes %s alone", async (path, allow) => {
  const refused = await ask(path, "PUT");
  expect([refused.status, refused.headers.get("allow"), await refused.json()]).toEqual([
    405,
    allow,
    { error: expect.stringContaining(allow), code: "bad_request" },
  ]);
  for (const method of allow.split(", ")) {
    const { status } = await ask(path, method);
    expect([method, [404, 405].includes(status)]).toEqual([method, false]);
  }
});

test("the endpoints of OAuth say it in the words of OAuth", async () => {
  for (const path of ["/oauth/token", "/oauth/revoke", "/oauth/register"]) {
    const refused = await ask(path, "GET");
    expect([refused.status, refused.headers.get("allow"), await refused.json()]).toEqual([
      405,
      "POST",
      { error: "invalid_request", error_description: "use POST" },
    ]);
  }
});

test("an unknown path is 404, whatever the method", async () => {
  for (const path of ["/nowhere", "/app/nowhere", "/assets/nothing.js", "/.well-known/acme-challenge/x"]) {
    for (const method of ["GET", "PUT"]) expect([path, (await ask(path, method)).status]).toEqual([path, 404]);
  }
});

describe("the methods of a path", () => {
  const methodsOf = createMethodFinder([
    { method: "GET", path: "/a/:id" },
    { method: "PATCH", path: "/a/:id" },
    { method: "POST", path: "/a/new" },
    { method: "DELETE", path: "/a/:id/b" },
    { method: "GET", path: "/a/:id/:part" },
  ]);

  test.each([
    ["/a/1", ["GET", "HEAD", "PATCH"]],
    ["/a/new", ["GET", "HEAD", "PATCH", "POST"]],
    ["/a/1/b", ["DELETE", "GET", "HEAD"]],
    ["/a/1/c", ["GET", "HEAD"]],
    ["/a/", []],
    ["/a", []],
    ["/a/1/", []],
    ["/a/1/b/c", []],
    ["a/1", []],
    ["/".repeat(16_000), []],
  ])("%s", (path, methods) => {
    expect(methodsOf(path)).toEqual(methods);
  });
});
