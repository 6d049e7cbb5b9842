/** A whole appliance, and calls of its administration API over a real socket. */
import * as domains from "../../../src/admin/domains.ts";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import { type Zone, zone } from "../peers/dns-server.ts";
import { type Booted, boot, type Person } from "./boot.ts";

export interface Told {
  status: number;
  /** The header Idempotency-Replayed. */
  replayed: boolean;
  body: Record<string, unknown>;
}

type Call = (method: string, path: string, body?: unknown, idempotencyKey?: string) => Promise<Told>;

export interface AdminApi extends Booted {
  /** Calls the API as Alice, who owns the first workspace. Paths are below /api/admin/v1. */
  call: Call;
  /** Calls the API with another key. */
  callAs(key: string): Call;
  /** Adds a second workspace, at other.test, with its owner. */
  other: Person & { workspaceId: string; domainId: string };
}

/** Starts an appliance with the given DNS zone, which a test may change. */
export async function bootAdminApi(description: Zone = {}): Promise<AdminApi> {
  const booted = await boot({}, zone(description));
  const { core, write, join, keyOf, owner } = booted;

  const callAs = (apiKey: string): Call => {
    return async (method, path, body, idempotencyKey) => {
      const response = await fetch(`${booted.http}/api/admin/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${apiKey}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const replayed = response.headers.get("idempotency-replayed") === "true";
      return { status: response.status, replayed, body: (await response.json()) as Record<string, unknown> };
    };
  };

  const { workspaceId, domainId } = write((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Other");
    const domain = domains.addDomain(core, tx, id, "other.test", []);
    domains.markDomainVerified(core, tx, domain.id);
    return { workspaceId: id, domainId: domain.id };
  });
  const other = { workspaceId, domainId, ...join("zoe@other.test", "owner", { workspaceId }) };
  return { ...booted, call: callAs(keyOf(owner.userId)), callAs, other };
}

/** Reads all pages of a list, two rows a page. */
export async function allPages<T>(call: Call, path: string, field: string): Promise<T[]> {
  const rows: T[] = [];
  for (let cursor: unknown = ""; cursor !== null; ) {
    const { body } = await call("GET", `${path}?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    rows.push(...(body[field] as T[]));
    cursor = body.nextCursor;
  }
  return rows;
}

/** Writes a refusal as `status code`. */
export const refusal = ({ status, body }: Told): string => `${status} ${body.code}`;
