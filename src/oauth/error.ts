/** Refusals of the OAuth endpoints. */

/** The codes of RFC 6749 §4.1.2.1 and §5.2, RFC 7591 §3.2.2 and RFC 8707 §2 that are used here. */
export type OAuthCode =
  | "invalid_request"
  | "unauthorized_client"
  | "access_denied"
  | "unsupported_response_type"
  | "invalid_scope"
  | "invalid_target"
  | "invalid_client"
  | "invalid_grant"
  | "unsupported_grant_type"
  | "invalid_redirect_uri"
  | "invalid_client_metadata";

/** `message` is for the developer of the client: ASCII without quotes and backslashes (RFC 6749 §5.2). */
export class OAuthError extends Error {
  readonly code: OAuthCode;

  constructor(code: OAuthCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The parameters of a query or form. Empty ones count as left out (RFC 6749 §3.1). */
export interface Parameters {
  get(name: string): string | undefined;
  /** The values of `resource`, the only parameter that may repeat (RFC 8707 §2). */
  resources: string[];
  /** Names of other parameters that repeat. */
  repeated: ReadonlySet<string>;
}

export function readOAuthParameters(text: string): Parameters {
  const given = new URLSearchParams(text);
  const names = [...given.keys()].filter((name) => name !== "resource");
  return {
    get: (name) => given.get(name) || undefined,
    resources: given.getAll("resource").filter(Boolean),
    repeated: new Set(names.filter((name, index) => names.indexOf(name) < index)),
  };
}
