/**
 * Reads an authorization request (RFC 6749 §4.1.1, RFC 7636, RFC 8707). Pure, but for the client, which the caller finds.
 *
 * Invariant: what leads back to a client goes to a redirect URI that the client has registered. A request without one is
 * answered to the person alone.
 */
import { AppError } from "../base/errors.ts";
import type { Scope } from "../store/schema.ts";
import type { Client } from "./clients.ts";
import { OAuthError, type Parameters } from "./error.ts";
import { GRANTABLE, OFFLINE } from "./metadata.ts";
import { isRegisteredRedirect } from "./redirects.ts";

export interface AuthorizationRequest {
  /** Redirect URI as the client gave it; undefined if it gave none and means its only one. */
  redirectUri: string | undefined;
  challenge: string;
  /** Scopes that the client asks for; every scope that a grant may have if it does not say. */
  scopes: readonly Scope[];
}

/** A SHA-256 in base64url. */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
const LONGEST_STATE = 4_096;

const problem = (message: string) => new AppError("unprocessable", message);

/** The client's id. @throws AppError unprocessable */
export function readClientId({ get, repeated }: Parameters): string {
  const id = get("client_id");
  if (id === undefined || repeated.has("client_id")) throw problem("The link does not say which program asks");
  return id;
}

/** The address that the answer goes to. @throws AppError unprocessable, unless it is registered */
export function readRedirect({ get, repeated }: Parameters, { name, redirectUris }: Client): string {
  const [only] = redirectUris;
  const uri = get("redirect_uri") ?? (redirectUris.length === 1 ? only : undefined);
  if (repeated.has("redirect_uri") || uri === undefined) {
    throw problem(`The link does not say where to send you back to: start again in ${name}`);
  }
  if (!isRegisteredRedirect(redirectUris, uri)) {
    throw problem(
      `The link would send you back to an address that ${name} has not registered, so nothing is sent there`,
    );
  }
  return uri;
}

/** Reads the rest of a request whose answer may be sent back. @throws OAuthError */
export function readAuthorizationRequest(given: Parameters, client: Client, resource: string): AuthorizationRequest {
  const { get, repeated, resources } = given;
  if (repeated.size > 0) throw new OAuthError("invalid_request", "a parameter is given twice");
  if ((get("state")?.length ?? 0) > LONGEST_STATE) throw new OAuthError("invalid_request", "state is too long");
  const type = get("response_type");
  if (type === undefined) throw new OAuthError("invalid_request", "response_type is missing");
  if (type !== "code") throw new OAuthError("unsupported_response_type", "response_type must be code");
  if ((get("response_mode") ?? "query") !== "query") {
    throw new OAuthError("invalid_request", "response_mode must be query");
  }
  if (!client.asksForCodes) throw new OAuthError("unauthorized_client", "the program does not register for codes");
  const challenge = get("code_challenge");
  if (challenge === undefined) throw new OAuthError("invalid_request", "code_challenge is missing: PKCE is required");
  if (get("code_challenge_method") !== "S256") {
    throw new OAuthError("invalid_request", "code_challenge_method must be S256");
  }
  if (!CHALLENGE.test(challenge)) throw new OAuthError("invalid_request", "code_challenge is no SHA-256 in base64url");
  if (resources.some((uri) => uri !== resource)) {
    throw new OAuthError("invalid_target", "resource must be the address of MCP on this server");
  }
  return { redirectUri: get("redirect_uri"), challenge, scopes: readScopes(get("scope")) };
}

/** @throws OAuthError invalid_scope */
function readScopes(text: string | undefined): readonly Scope[] {
  const asked = scopesIn(text).filter((scope) => scope !== OFFLINE);
  if (!asked.every((scope) => GRANTABLE.some((known) => known === scope))) {
    throw new OAuthError("invalid_scope", `scope may have ${GRANTABLE.join(", ")} and ${OFFLINE}`);
  }
  return asked.length === 0 ? GRANTABLE : GRANTABLE.filter((scope) => asked.includes(scope));
}

/** The names in a parameter `scope` (RFC 6749 §3.3). */
export const scopesIn = (text = ""): string[] => text.split(" ").filter(Boolean);
