/** The frame in which PDFs are drawn: what it may do, and that nothing of anybody's is in it. */
import { beforeAll, expect, test } from "bun:test";
import { type Booted, boot } from "../harness/appliance.ts";

let booted: Booted;
beforeAll(async () => {
  booted = await boot();
});
const get = (path: string) => fetch(`${booted.http}${path}`);

test("its document has an origin of its own, may load its two files and nothing else, and stands in pages of ours only", async () => {
  const answer = await get("/pdf-viewer");
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-security-policy")?.split("; ")).toEqual([
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
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "x-frame-options": "SAMEORIGIN",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
  });
  const html = await answer.text();
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

test("there is nothing else below its files", async () => {
  expect((await get("/assets/pdf/other.js")).status).toBe(404);
});
