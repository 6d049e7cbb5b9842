/**
 * Programs that ask for grants. One names itself by the URL of its document (draft-ietf-oauth-client-id-metadata-document),
 * or registers (RFC 7591). All are public: they have no secret, since PKCE and the redirect URI prove as much as a secret
 * would that anybody may register. The only writer of oauth_clients.
 *
 * Invariant: a document is fetched only for a person who is signed in, to an address that net/destination.ts allows.
 */
import { and, asc, count, eq, inArray, isNotNull, isNull, lt, notExists, type SQL, sql } from "drizzle-orm";
import { createRateLimit } from "../access/rate.ts";
import { createConcurrencyLimits } from "../access/slowdown.ts";
import { MOST_REQUESTS } from "../base/descriptors.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import { createShares, type Sharer, type Shares } from "../base/shares.ts";
import { readResponseText } from "../net/answer.ts";
import { describeHttpFailure, type HttpClient, openHttpClient } from "../net/http-client.ts";
import { ipAddressNetwork, isLocalhostSource } from "../net/ip.ts";
import type { Core } from "../store/core.ts";
import { apiKeys, oauthClients, oauthGrants } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { OAuthError } from "./error.ts";
import { findRedirectTarget } from "./redirects.ts";

export interface Client {
  id: string;
  /** Name that the program gives itself. */
  name: string;
  redirectUris: readonly string[];
  /** The host of its document; absent for one that registered. */
  host?: string;
  /** True if the program may ask for codes. */
  asksForCodes: boolean;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Registrations of one source an hour. */
const MOST_AN_HOUR = 20;
/** Programs that registered from a network and have no grant yet; beyond it the oldest of the network go. */
const MOST_OF_NETWORK = 100;
/**
 * Registered programs of all networks that have no grant yet. Beyond it a registration is refused, so that the programs of one
 * network never push out another's.
 */
const MOST_UNUSED = 10_000;
/** A hosted client may be added by one person, and used by another only later. */
const UNUSED_MS = 30 * DAY_MS;
/** How long a program is remembered after its last grant ended, counted from when that was given. */
const REMEMBERED_MS = 90 * DAY_MS;
const MOST_REDIRECTS = 20;
const LONGEST_NAME = 100;
const LONGEST_ID = 512;
/** Bytes of a document. */
const LARGEST_DOCUMENT = 16 * 1024;
const FETCH_MS = 5_000;

/** Marks on one character. More of them, as nobody writes, are drawn over the lines above and below. */
const MOST_MARKS = 3;

/** A name as one line, without characters that reorder, hide or cover others, or show nothing themselves. */
function nameIn(given: unknown, otherwise: string): string {
  if (typeof given !== "string") return otherwise;
  let marks = 0;
  const characters = [...given.replace(/[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]+/gu, " ").trim()];
  const shown = characters.filter((character) => {
    marks = /\p{M}/u.test(character) ? marks + 1 : 0;
    return marks <= MOST_MARKS;
  });
  return shown.slice(0, LONGEST_NAME).join("") || otherwise;
}

/** @throws OAuthError invalid_redirect_uri */
function readRedirects(given: unknown): string[] {
  const isList = Array.isArray(given) && given.length > 0 && given.length <= MOST_REDIRECTS;
  if (!isList || !given.every((uri) => typeof uri === "string")) {
    throw new OAuthError("invalid_redirect_uri", `redirect_uris must be a list of 1 to ${MOST_REDIRECTS} addresses`);
  }
  if (!given.every((uri) => findRedirectTarget(uri) !== undefined)) {
    throw new OAuthError(
      "invalid_redirect_uri",
      "a redirect URI must be https, http on loopback, or of the scheme of an app, without fragment and user name",
    );
  }
  return [...new Set(given)];
}

const isMissing = (list: unknown, needed: string): boolean =>
  list !== undefined && !(Array.isArray(list) && list.includes(needed));

/** True if `id` is the URL of a document: https, with a path, without anything that a second spelling could hide in. */
function isDocumentUrl(id: string): boolean {
  const url = URL.parse(id);
  return (
    url?.protocol === "https:" &&
    url.href === id &&
    url.pathname !== "/" &&
    url.hash === "" &&
    url.username + url.password === ""
  );
}

export function createOAuthClients({ store, options, runtime }: Core) {
  const registrations = createRateLimit(
    () => MOST_AN_HOUR,
    () => 0,
    10_000,
    HOUR_MS,
  );
  const allowed = () => {
    const networks = options.get("webhooks.allowNetworks");
    return networks === "none" ? NONE : networks;
  };
  const http = openHttpClient({ runtime, allow: allowed, mostIdle: 1 });
  /** Fetches of documents: one at a time for a person, and few waiting. */
  const fetches = createConcurrencyLimits({ atOnce: 1, mostWaiting: 3 });
  const underWay = createShares({ most: MOST_REQUESTS.clientDocuments, runtime });

  /** @throws AppError unprocessable, with what a person can do */
  async function readDocument(id: string, person: Sharer): Promise<Client> {
    const { host } = new URL(id);
    const fault = (why: string) =>
      new AppError("unprocessable", `The document of the program at ${host} cannot be used: ${why}`);
    const text = await fetches
      .within(person.userId, () => fetchText(http, id, underWay, person))
      .catch((error) => {
        if (error instanceof AppError && error.code === "rate_limited") throw error;
        throw fault(describeHttpFailure(error));
      });
    let given: Record<string, unknown>;
    try {
      given = JSON.parse(text);
    } catch {
      throw fault("it is not JSON");
    }
    if (given?.client_id !== id) throw fault("it names another client_id");
    const name = nameIn(given.client_name, "");
    if (name === "") throw fault("it has no client_name");
    const method = given.token_endpoint_auth_method ?? "none";
    if (typeof method !== "string" || method.startsWith("client_secret") || given.client_secret !== undefined) {
      throw fault("it asks for a secret, which a public document cannot have");
    }
    try {
      return {
        id,
        name,
        redirectUris: readRedirects(given.redirect_uris),
        host,
        asksForCodes: !isMissing(given.grant_types, "authorization_code") && !isMissing(given.response_types, "code"),
      };
    } catch (error) {
      throw error instanceof OAuthError ? fault(error.message) : error;
    }
  }

  return {
    /**
     * Registers a program (RFC 7591 §3). Fields that it gives and that mean nothing here are left out of the response.
     * @throws OAuthError; AppError rate_limited
     */
    register(given: unknown, source: string): Record<string, unknown> {
      const now = runtime.now();
      const { retryAfter } = registrations.take(source, now);
      if (retryAfter !== undefined) {
        throw new AppError("rate_limited", "Too many programs were registered from this address", { retryAfter });
      }
      if (typeof given !== "object" || given === null || Array.isArray(given)) {
        throw new OAuthError("invalid_client_metadata", "send a JSON object");
      }
      const metadata = given as Record<string, unknown>;
      const redirectUris = readRedirects(metadata.redirect_uris);
      if (isMissing(metadata.grant_types, "authorization_code") || isMissing(metadata.response_types, "code")) {
        throw new OAuthError(
          "invalid_client_metadata",
          "only the grant authorization_code with the response code is served",
        );
      }
      const id = newId(runtime, "cli");
      const name = nameIn(metadata.client_name, "A program without a name");
      // A proxy of one's own is no network.
      const network = isLocalhostSource(source) ? "" : ipAddressNetwork(source);
      store.transact((tx) => {
        const unused = isNull(oauthClients.usedAt);
        const ofNetwork = and(unused, eq(oauthClients.network, network));
        const counted = (where: SQL | undefined) =>
          tx.select({ n: count() }).from(oauthClients).where(where).get()?.n ?? 0;
        if (network !== "" && counted(ofNetwork) >= MOST_OF_NETWORK) {
          const oldest = tx
            .select({ id: oauthClients.id })
            .from(oauthClients)
            .where(ofNetwork)
            .orderBy(asc(oauthClients.createdAt))
            .limit(1);
          tx.delete(oauthClients).where(inArray(oauthClients.id, oldest)).run();
        } else if (counted(unused) >= MOST_UNUSED) {
          throw new AppError("rate_limited", "Too many programs wait for somebody to let them in: try again later", {
            retryAfter: HOUR_MS / 1_000,
          });
        }
        tx.insert(oauthClients).values({ id, name, redirectUris, createdAt: now, network }).run();
      });
      return {
        client_id: id,
        client_id_issued_at: Math.floor(now / 1_000),
        client_name: name,
        redirect_uris: redirectUris,
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
      };
    },
    /**
     * The client of that id, for a person who is signed in: a document is fetched. Undefined for an unknown one.
     * @throws AppError unprocessable for a document that cannot be fetched or used; rate_limited
     */
    async find(id: string, person: Sharer): Promise<Client | undefined> {
      if (id.length > LONGEST_ID) return undefined;
      if (isDocumentUrl(id)) return readDocument(id, person);
      const known = store.db.select().from(oauthClients).where(eq(oauthClients.id, id)).get();
      return known && { id, name: known.name, redirectUris: known.redirectUris, asksForCodes: true };
    },
    /** True for a registered program, and for any URL of a document, which is not fetched. */
    isKnown: (id: string): boolean =>
      isDocumentUrl(id) || store.db.select().from(oauthClients).where(eq(oauthClients.id, id)).get() !== undefined,
    /** Notes that a person gave a grant. */
    noteUse(tx: Tx, id: string): void {
      tx.update(oauthClients).set({ usedAt: runtime.now() }).where(eq(oauthClients.id, id)).run();
    },
    /** Forgets programs that nobody let in for long, and those without a grant for long. */
    sweep(tx: Tx, now: number): void {
      tx.delete(oauthClients)
        .where(and(isNull(oauthClients.usedAt), lt(oauthClients.createdAt, now - UNUSED_MS)))
        .run();
      const live = tx
        .select({ one: sql`1` })
        .from(oauthGrants)
        .innerJoin(apiKeys, eq(apiKeys.id, oauthGrants.keyId))
        .where(and(eq(oauthGrants.clientId, oauthClients.id), isNull(apiKeys.revokedAt)));
      tx.delete(oauthClients)
        .where(and(isNotNull(oauthClients.usedAt), lt(oauthClients.usedAt, now - REMEMBERED_MS), notExists(live)))
        .run();
    },
    close: http.close,
  };
}

/** Forgets the programs that a person let in, and nobody else. */
export function forgetPersonalOAuthClients(tx: Tx, userId: string): void {
  tx.run(sql`DELETE FROM oauth_clients WHERE id IN
    (SELECT client_id FROM oauth_grants JOIN api_keys ON id = key_id GROUP BY client_id
     HAVING min(user_id) = ${userId} AND max(user_id) = ${userId})`);
}

const NONE: readonly string[] = [];

/** @throws Error that says what is wrong with the response; RefusedDestination; errors of the connection */
function fetchText(http: HttpClient, url: string, underWay: Shares, person: Sharer): Promise<string> {
  return http.within(FETCH_MS, async (signal) => {
    const turn = await underWay.wait(person, 1, FETCH_MS, signal);
    let response: Response | undefined;
    try {
      response = await http.send({ method: "GET", url, headers: { accept: "application/json" } }, signal);
      if (response.status !== 200) throw new Error(`its server answers ${response.status}`);
      const type = (response.headers.get("content-type") ?? "").split(";")[0]?.trim() ?? "";
      if (!/^application\/(json|[\w.-]+\+json)$/i.test(type)) throw new Error("it is not sent as JSON");
      return await readResponseText(response, LARGEST_DOCUMENT, { fatal: true });
    } finally {
      await response?.body?.cancel().catch(() => {});
      turn?.release();
    }
  });
}
