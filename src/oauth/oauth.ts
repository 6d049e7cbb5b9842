/**
 * The authorization server for MCP (rules: OAuth): programs find it (metadata.ts), name themselves (clients.ts) and ask
 * (authorization.ts); a person who is signed in answers in the app; the program exchanges its code for tokens (grants.ts).
 *
 * Invariant: a stranger's request does nothing but register a program or present a code or token. Everything else waits for a
 * person who is signed in, also the refusal of a malformed request, so that nobody is led away without having looked.
 */
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { randomToken } from "../base/runtime.ts";
import type { Core } from "../store/core.ts";
import type { Policy, Scope } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import {
  type AuthorizationRequest,
  readAuthorizationRequest,
  readClientId,
  readRedirect,
  scopesIn,
} from "./authorization.ts";
import { type Client, createOAuthClients } from "./clients.ts";
import { OAuthError, type Parameters, readOAuthParameters } from "./error.ts";
import * as grants from "./grants.ts";
import { ACCESS_MS, LASTING_ACCESS_MS, type Tokens } from "./grants.ts";
import { OFFLINE, resourceIdentifier } from "./metadata.ts";
import { addUriParameters, findRedirectTarget, type RedirectTarget } from "./redirects.ts";

/** A person at a browser. */
type Answering = { sessionId: string; caller: Pick<Caller, "workspaceId" | "userId" | "role"> };

/** A request that a person looks at. */
interface Pending extends AuthorizationRequest {
  sessionId: string;
  openedAt: number;
  client: Pick<Client, "id" | "name" | "host">;
  place: RedirectTarget;
  /** URI that the answer goes to. */
  returnsTo: string;
  state: string | undefined;
}

/** An opened request, as the person is shown it. */
export interface Opened {
  client: {
    /** Name that the program gives itself. */
    name: string;
    /** The host whose document it is; absent for a program that registered itself, which proves nothing. */
    host?: string;
  };
  /** RedirectTarget that the answer leads to. */
  place: RedirectTarget;
  /** The request that approve or deny answers. */
  request?: { id: string; scopes: readonly Scope[]; suggested: readonly Scope[] };
  /** The request cannot be granted. `returnTo` tells the program so, if the person goes there. */
  refusal?: { code: string; reason: string; returnTo: string };
}

const PENDING_MS = 10 * 60_000;
const MOST_PENDING = 1_000;
const MOST_OF_ONE = 20;
/** Scopes that a person is advised to give. */
const SUGGESTED: readonly Scope[] = ["read", "write"];
const HOUR_MS = 3_600_000;
/** Pause between two portions of a sweep. */
const PORTION_MS = 100;

export type OAuth = ReturnType<typeof createOAuth>;

export function createOAuth(core: Core) {
  const { store, options, runtime, log, site } = core;
  /** The issuer. */
  const { baseUrl } = site;
  const resource = resourceIdentifier(baseUrl);
  const clients = createOAuthClients(core);
  /** Pending requests by id, oldest first. */
  const pending = new Map<string, Pending>();

  function keep(opened: Pending): string {
    for (const [id, { openedAt }] of pending) {
      if (pending.size < MOST_PENDING && runtime.now() - openedAt < PENDING_MS) break;
      pending.delete(id);
    }
    const own = [...pending].filter(([, { sessionId }]) => sessionId === opened.sessionId);
    if (own[0] && own.length >= MOST_OF_ONE) pending.delete(own[0][0]);
    const id = randomToken(runtime, 22);
    pending.set(id, opened);
    return id;
  }

  /** @throws AppError not_found for a request that was answered, was opened elsewhere or waited too long */
  function getPendingRequest(id: string, sessionId: string): Pending {
    const found = pending.get(id);
    if (found?.sessionId === sessionId && runtime.now() - found.openedAt < PENDING_MS) return found;
    throw new AppError("not_found", "This request was answered already, or has expired: start again in the program");
  }

  const answerTo = ({ returnsTo, state }: Pick<Pending, "returnsTo" | "state">, answer: Record<string, string>) =>
    addUriParameters(returnsTo, { ...answer, state, iss: baseUrl });

  const mayGrant = ({ role }: Pick<Caller, "role">): boolean =>
    role !== "member" || options.get("oauth.grants") === "everyone";
  const NOT_YOURS = "On this server, only owners and admins may give programs access: ask one of them";

  /** The parameters of a request to the token or revocation endpoint, and the client that sends it. @throws OAuthError */
  function readForm(text: string): Parameters & { clientId: string; required(name: string): string } {
    const form = readOAuthParameters(text);
    if (form.repeated.size > 0) throw new OAuthError("invalid_request", "a parameter is given twice");
    const required = (name: string): string => {
      const value = form.get(name);
      if (value === undefined) throw new OAuthError("invalid_request", `${name} is missing`);
      return value;
    };
    if (form.get("client_secret") !== undefined || form.get("client_assertion") !== undefined) {
      throw new OAuthError("invalid_client", "programs have no secret here: authenticate with none");
    }
    const clientId = required("client_id");
    if (!clients.isKnown(clientId)) throw new OAuthError("invalid_client", "this program is not registered");
    return { ...form, clientId, required };
  }

  return {
    register: clients.register,

    /** Answers the token endpoint's form (RFC 6749 §4.1.3, §6). @throws OAuthError */
    exchange(text: string): Tokens {
      const type = readOAuthParameters(text).get("grant_type");
      if (type !== undefined && type !== "authorization_code" && type !== "refresh_token") {
        throw new OAuthError("unsupported_grant_type", "grant_type must be authorization_code or refresh_token");
      }
      const { get, required, clientId, resources } = readForm(text);
      required("grant_type");
      const given = store.transact((tx) => {
        if (type === "refresh_token") {
          const scopes = scopesIn(get("scope")).filter((scope) => scope !== OFFLINE);
          return grants.exchangeRefreshToken(core, tx, {
            token: required("refresh_token"),
            clientId,
            scopes,
            resources,
          });
        }
        const [code, verifier] = [required("code"), required("code_verifier")];
        return grants.exchangeCode(core, tx, { code, verifier, clientId, resources, redirectUri: get("redirect_uri") });
      });
      if (given instanceof OAuthError) throw given;
      return given;
    },
    /** Revokes the token of a form (RFC 7009). False if there is none. @throws OAuthError */
    revoke(text: string): boolean {
      const { required, clientId } = readForm(text);
      return store.transact((tx) => grants.revokeToken(core, tx, { token: required("token"), clientId }));
    },

    /**
     * Opens the request in the query of an authorization URL, for a person to answer.
     * @throws AppError unprocessable for one that nothing may be sent back for, with what to tell the person
     */
    async open({ sessionId, caller }: Answering, query: string): Promise<Opened> {
      const given = readOAuthParameters(query);
      const id = readClientId(given);
      const client = await clients.find(id, caller);
      if (!client)
        throw new AppError("unprocessable", "This program is not registered here: start again in the program");
      const returnsTo = readRedirect(given, client);
      const place = findRedirectTarget(returnsTo) as RedirectTarget;
      const { name, host } = client;
      const shown = { client: { name, ...(host !== undefined && { host }) }, place };
      const state = given.get("state");
      try {
        const asked = readAuthorizationRequest(given, client, resource);
        if (!mayGrant(caller)) throw new OAuthError("access_denied", NOT_YOURS);
        const opened = { ...asked, sessionId, openedAt: runtime.now(), client, place, returnsTo, state };
        const suggested = asked.scopes.filter((scope) => SUGGESTED.includes(scope));
        return { ...shown, request: { id: keep(opened), scopes: asked.scopes, suggested } };
      } catch (error) {
        if (!(error instanceof OAuthError)) throw error;
        const { code, message: reason } = error;
        const returnTo = answerTo({ returnsTo, state }, { error: code, error_description: reason });
        return { ...shown, refusal: { code, reason, returnTo } };
      }
    },
    /**
     * Gives what a person chose, in `tx`; returns where the browser goes next. `lasts`: for a program that does not renew
     * its access. @throws AppError bad_request, forbidden, not_found
     */
    approve(
      tx: Tx,
      { sessionId, caller }: Answering,
      id: string,
      { scopes, policy, lasts }: { scopes: readonly Scope[]; policy: Policy; lasts: boolean },
    ): string {
      const asked = getPendingRequest(id, sessionId);
      if (scopes.length === 0 || !scopes.every((scope) => asked.scopes.includes(scope))) {
        throw new AppError("bad_request", "Choose at least one of the permissions that the program asks for");
      }
      if (!mayGrant(caller)) throw new AppError("forbidden", NOT_YOURS);
      const { client, place, redirectUri, challenge } = asked;
      const { keyId, code } = grants.createGrant(core, tx, {
        userId: caller.userId,
        client: { id: client.id, name: client.name, host: client.host ?? place.name },
        scopes,
        policy,
        resource,
        redirectUri,
        challenge,
        accessMs: lasts ? LASTING_ACCESS_MS : ACCESS_MS,
      });
      clients.noteUse(tx, client.id);
      pending.delete(id);
      log.info("a grant was given", { keyId, userId: caller.userId });
      return answerTo(asked, { code });
    },
    /** Refuses a request; returns where the browser goes next. @throws AppError not_found */
    deny({ sessionId }: Pick<Answering, "sessionId">, id: string): string {
      const asked = getPendingRequest(id, sessionId);
      pending.delete(id);
      return answerTo(asked, { error: "access_denied", error_description: "the person refused" });
    },

    job: {
      name: "sweep-oauth",
      deletes: true,
      runDue(now: number): number {
        const more = store.transact((tx) => {
          clients.sweep(tx, now);
          return grants.sweepGrants(tx, now);
        });
        return now + (more ? PORTION_MS : HOUR_MS);
      },
    },
    stop: clients.close,
  };
}
