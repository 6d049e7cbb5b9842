/** The app's pages and files over HTTP: paths, policy, and size. */
import { beforeAll, describe, expect, test } from "bun:test";
import { appScripts } from "../harness/clients/app-scripts.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

/** Compressed bytes that the first page may take, all files together. */
const MOST_BYTES = 200_000;

let booted: Booted;
beforeAll(async () => {
  booted = await boot();
}, 120_000);

const get = (path: string, init: RequestInit = {}) => fetch(booted.http + path, init);

describe("pages", () => {
  test.each(["/", "/sign-in", "/mail/inbox", "/mail/spam/thr_1?q=x", "/settings"])("%s is the app", async (path) => {
    const answer = await get(path);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(await answer.text()).toContain('<div id="root">');
  });

  test.each(["/mailbox", "/assets/", "/assets/nothing.js", "/sign-in/x", "/app.js"])(
    "%s is not there",
    async (path) => {
      expect((await get(path)).status).toBe(404);
    },
  );

  test("run only our files, in no frame, and send no referrer", async () => {
    const { headers } = await get("/");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    for (const directive of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]) {
      expect(policy.split("; ")).toContain(directive);
    }
    expect(Object.fromEntries(headers)).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "x-frame-options": "DENY",
      "cache-control": "no-cache",
    });
    expect(headers.has("strict-transport-security")).toBe(false);
  });

  test("hold no script or style of their own", async () => {
    const html = await (await get("/")).text();
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/i);
  });
});

test("the first page takes less than 200 kB compressed, and its files have hashes for names", async () => {
  const gzip = { headers: { "accept-encoding": "gzip" }, decompress: false } as RequestInit;
  const html = await (await get("/")).text();
  const paths = ["/", ...[...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path = ""]) => path)];
  const { first, later } = await appScripts(booted.http);
  // The page names every script that runs at once, so that none waits for another.
  expect(paths.filter((path) => path.endsWith(".js")).sort()).toEqual(first.sort());
  // With the page, its styles and icon, and the fonts that every page needs.
  expect(paths).toHaveLength(first.length + 4);
  expect(later.length).toBeGreaterThan(3);
  let bytes = 0;
  for (const path of [...paths, ...later]) {
    const answer = await get(path, gzip);
    expect([path, answer.headers.get("content-encoding")]).toEqual([path, path.endsWith(".woff2") ? null : "gzip"]);
    if (path !== "/") expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    if (!later.includes(path)) bytes += (await answer.arrayBuffer()).byteLength;
  }
  expect(bytes).toBeGreaterThan(50_000);
  expect(bytes).toBeLessThan(MOST_BYTES);
});

test("a browser without gzip gets the same files", async () => {
  const path = /src="([^"]+)"/.exec(await (await get("/")).text())?.[1] ?? "";
  for (const encodings of ["identity", "gzip;q=0, *"]) {
    const plain = await get(path, { headers: { "accept-encoding": encodings } });
    expect(plain.headers.has("content-encoding")).toBe(false);
  }
  const plain = await get(path, { headers: { "accept-encoding": "identity" } });
  expect(await plain.text()).toBe(await (await get(path)).text());
});

describe("the viewer of PDFs", () => {
  test("has an origin of its own, loads only its two files, and shows only in pages of this server", async () => {
    const response = await get("/pdf-viewer");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-security-policy")?.split("; ")).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src blob: data:",
      "font-src data: blob:",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'self'",
      "sandbox allow-scripts",
    ]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-frame-options": "SAMEORIGIN",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    const html = await response.text();
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/i);
    const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = ""]) => path);
    expect(files).toHaveLength(2);
    for (const path of files) {
      const file = await get(path);
      expect([path, file.status, file.headers.get("access-control-allow-origin")]).toEqual([path, 200, "*"]);
      expect(file.headers.get("cross-origin-resource-policy")).toBe("cross-origin");
      expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    }
  });

  test("has no other files", async () => {
    expect((await get("/assets/pdf/other.js")).status).toBe(404);
  });
});
