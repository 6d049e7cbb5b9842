/** The API reference over HTTP (rules: Web): it shows all of the OpenAPI documents, under a strict policy. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createTools } from "../../src/api/mcp/tools.ts";
import { describeApi } from "../../src/api/openapi.ts";
import { makeExampleValue } from "../../src/api/reference/example.ts";
import { type ApiDocument, getSuccessResponse, listApiEndpoints } from "../../src/api/reference/openapi-document.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { STATUS_OF_CODE } from "../../src/base/errors.ts";
import { EVENT_NAMES } from "../../src/events/kinds.ts";
import { faults, type Json, type JsonObject } from "../harness/clients/schema-validator.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const documents = [MAIL_API, EXT_API, ADMIN_API].map((api) => describeApi(api, "http://localhost:8025"));

let booted: Booted;
let html: string;
beforeAll(async () => {
  booted = await boot();
  html = await (await get("/api/docs")).text();
}, 120_000);

const get = (path: string, init: RequestInit = {}) => fetch(booted.http + path, init);
const all = (pattern: RegExp): string[] => [...html.matchAll(pattern)].map(([, found = ""]) => found);
const textOf = (part: string): string =>
  part.replace(/<[^>]*>/g, "").replace(/&(amp|lt|gt|quot|#x27);/g, (_, name: string) => ENTITIES[name] ?? "");
/** Finds a piece of code of a section by its title. */
function codeOf(section: string, title: string): string {
  const [, rest = ""] = html.split(`<section id="${section}"`);
  const [, code = ""] = (rest.split("</section>")[0] ?? "").split(`<figcaption>${title}</figcaption><pre><code>`);
  return textOf(code.split("</code>")[0] ?? "");
}
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

describe("the page", () => {
  test.each(["/api/docs", "/api/docs/"])("is at %s, without signing in", async (path) => {
    const answer = await get(path);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(await answer.text()).toBe(html);
    expect((await get(path, { method: "HEAD" })).status).toBe(200);
  });

  test("runs only the script of this server", async () => {
    const policy = (await get("/api/docs")).headers.get("content-security-policy") ?? "";
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(policy.split("; ")).toContain("script-src 'self'");
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/i);
  });

  test("needs only files of this server, which are cached under the hash of their content", async () => {
    const files = all(/(?:src|href)="([^"#]+\.(?:js|css|svg))"/g);
    expect(new Set(files).size).toBe(3);
    for (const file of files) {
      expect(file).toStartWith("/api/docs/");
      const answer = await get(file);
      expect([file, answer.status]).toEqual([file, 200]);
      expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    }
    expect(all(/(?:src|href)="(https?:[^"]+)"/g)).toEqual([]);
  });

  test("takes GET and HEAD only, as a caller with a key is told", async () => {
    for (const path of ["/api/docs", "/api/docs/"]) {
      const answer = await get(path, { method: "POST", headers: { authorization: `Bearer ${booted.owner.apiKey}` } });
      expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    }
  });

  test("leaves other paths under /api/ to the API", async () => {
    for (const [method, path] of [
      ["GET", "/api/docs/nothing.js"],
      ["GET", "/api/docsx"],
      ["POST", "/api/docs"],
    ] as const) {
      const answer = await get(path, { method });
      expect([path, answer.status, await answer.json()]).toMatchObject([path, 401, { code: "unauthorized" }]);
    }
  });
});

describe("the content", () => {
  test("has every operation, event and schema of the documents", () => {
    const ids = new Set(all(/\sid="([^"]+)"/g));
    const text = textOf(html);
    for (const described of documents as unknown as ApiDocument[]) {
      for (const { method, path, operation } of listApiEndpoints(described)) {
        expect([...ids]).toContain(operation.operationId);
        expect(text).toContain(`${method} ${path}`);
        expect(text).toContain(operation.summary);
        for (const { name } of operation.parameters ?? []) expect(text).toContain(name);
      }
      const { schemas } = described.components;
      for (const { properties = {} } of Object.values(schemas)) {
        for (const field of Object.keys(properties)) expect(html).toContain(`<code>${field}</code>`);
      }
    }
    for (const event of EVENT_NAMES) expect(text).toContain(event);
    expect(text).toContain("http://localhost:8025/api/mcp");
  });

  test("says of every error code what it means and what to do", () => {
    const [, rest = ""] = html.split('<table class="codes">');
    const rows = (rest.split("</table>")[0] ?? "").split("<tr").slice(2);
    const said = rows.map((row) => row.split(/<\/t[hd]>/).map((cell) => textOf(`<tr${cell}`)));
    const codes = Object.entries(STATUS_OF_CODE).map(([code, status]) =>
      code === "server_error" ? `${code} 500 or 503` : `${code} ${status}`,
    );
    expect(said.map(([code]) => code)).toEqual(codes);
    for (const [code, means = "", todo = ""] of said) {
      expect([code, /^[A-Z`].*\.$/.test(means), todo.endsWith(".")]).toEqual([code, true, true]);
    }
  });

  test("has every tool of the MCP server, with a call that it takes", () => {
    const { all } = createTools(MAIL_API.operations);
    expect(all.length).toBeGreaterThan(10);
    for (const tool of all) {
      const { name, inputSchema } = tool.listed;
      const call = JSON.parse(codeOf(name, "Call"));
      expect(call).toMatchObject({ method: "tools/call", params: { name } });
      const given = tool.readArguments(call.params.arguments);
      const placed = { ...given.params, ...given.query, ...given.body };
      expect([name, inputSchema.required ?? []]).toEqual([
        name,
        ((inputSchema.required as string[] | undefined) ?? []).filter((argument) => argument in placed),
      ]);
    }
  });

  test("has an example body of every event, as its schema says", () => {
    const read = documents[0] as unknown as ApiDocument;
    for (const event of EVENT_NAMES) {
      const { operationId, requestBody } = read.webhooks?.[event]?.post ?? {};
      const schema = requestBody?.content["application/json"].schema as JsonObject;
      const body = JSON.parse(codeOf(operationId ?? "", "Body"));
      expect([event, faults(read as unknown as JsonObject, schema, body)]).toEqual([event, []]);
      expect(body.event).toBe(event);
    }
  });

  test("names operations as people read them, and keeps their ids", () => {
    const [, contents = ""] = html.split('<nav id="contents"');
    expect(contents.split("</nav>")[0]).toContain('<a href="#replyToThread">Reply to thread<');
    expect(html).toContain("<small>replyToThread</small>");
  });

  test("has no broken link and no id twice", () => {
    const ids = all(/\sid="([^"]+)"/g);
    expect(new Set(ids).size).toBe(ids.length);
    expect(all(/href="#([^"]+)"/g).filter((id) => !ids.includes(id))).toEqual([]);
  });

  test("has examples of responses that match their schemas", () => {
    const checked = (documents as unknown as ApiDocument[]).flatMap((read) =>
      listApiEndpoints(read).flatMap(({ operation }) => {
        const schema = getSuccessResponse(operation).response.content?.["application/json"]?.schema;
        if (!schema) return [];
        const example = makeExampleValue(read, schema);
        expect(codeOf(operation.operationId, `Response ${getSuccessResponse(operation).status}`)).toBe(
          JSON.stringify(example, null, 2),
        );
        return [[operation.operationId, faults(read as unknown as JsonObject, schema as JsonObject, example as Json)]];
      }),
    );
    // All but originals, which are messages.
    expect(checked).toHaveLength(10 + EXT_API.operations.length - 1 + ADMIN_API.operations.length);
    expect(checked.filter(([, found]) => found?.length !== 0)).toEqual([]);
  });
});
