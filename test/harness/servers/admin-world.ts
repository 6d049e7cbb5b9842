/** The API of api-setup.ts with people who administer: Olga is the owner, Ada an admin, Max a member. */
import { eq } from "drizzle-orm";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import { describeApi } from "../../../src/api/openapi.ts";
import { ADMIN_API } from "../../../src/api/surfaces.ts";
import * as schema from "../../../src/store/schema.ts";
import { faults, type JsonObject, resolve } from "../clients/schema-validator.ts";
import { type Answer, startApi } from "./api-setup.ts";

const ADMIN = "/api/admin/v1";

const document = describeApi(ADMIN_API, "https://mail.example.test") as JsonObject;
const paths = document.paths as Record<string, Record<string, { responses: Record<string, JsonObject> }>>;

/** Checks that the OpenAPI document has each response, with its schema. */
function requireDocumented(method: string, path: string, { status, body }: Answer): void {
  const [asked = ""] = path.split("?");
  const isAsked = (template: string) => new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(asked);
  const described = paths[Object.keys(paths).find(isAsked) ?? ""]?.[method.toLowerCase()];
  if (!described) return;
  const named = described.responses[status];
  if (!named) throw new Error(`${method} ${path} answers ${status}, which its document does not say`);
  const response = typeof named.$ref === "string" ? resolve(document, named.$ref) : named;
  const { schema } = (response.content as { "application/json": { schema: JsonObject } })["application/json"];
  const found = faults(document, schema, body as JsonObject);
  if (found.length > 0)
    throw new Error(`${method} ${path} answers what its document does not say: ${found.join("; ")}`);
}

/** Starts one, with a key of Olga's that has all scopes. Rates are high unless `settings` says otherwise. */
export async function startAdmin(settings?: Record<string, string>) {
  const api = await startApi(settings ? { settings } : {});
  const { core, store, runtime } = api;
  store.transact((tx) => {
    const ada = { id: "ada", workspaceId: "wsp_1", email: "ada@example.test", name: "ada", createdAt: runtime.now() };
    tx.insert(schema.users)
      .values({ ...ada, role: "admin" })
      .run();
  });
  const all: schema.Scope[] = ["read", "send", "write", "admin"];
  const keyFor = (userId: string, scopes = all): string => api.keyOf(userId, scopes);
  const admin = keyFor("olga");
  async function as(key: string, method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const answer = await api.ask(ADMIN + path, {
      method,
      body,
      headers: { authorization: `Bearer ${key}`, ...headers },
    });
    requireDocumented(method, path, answer);
    return answer;
  }

  /** Adds another workspace with an owner. Olga must not reach anything in it. */
  const other = store.transact((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Other");
    const eve = { id: "eve", workspaceId: id, email: "eve@other.test", name: "eve", createdAt: runtime.now() };
    tx.insert(schema.users)
      .values({ ...eve, role: "owner" })
      .run();
    return id;
  });

  return {
    ...api,
    admin,
    as,
    keyFor,
    other,
    call: (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
      as(admin, method, path, body, headers),
    setRole: (userId: string, role: schema.Role) =>
      store.transact((tx) => {
        tx.update(schema.users).set({ role }).where(eq(schema.users.id, userId)).run();
      }),
    /** Reads the items of all pages of a list, two a page. */
    async pagesOf<T>(path: string, name: string): Promise<T[]> {
      const items: T[] = [];
      for (let cursor: unknown = ""; cursor !== null; ) {
        const more = cursor === "" ? "" : `&cursor=${cursor}`;
        const { status, body } = await as(admin, "GET", `${path}?limit=2${more}`);
        const page = body[name] as T[];
        if (status !== 200 || (page.length < 2 && body.nextCursor !== null)) throw new Error(JSON.stringify(body));
        items.push(...page);
        cursor = body.nextCursor;
      }
      return items;
    },
  };
}
