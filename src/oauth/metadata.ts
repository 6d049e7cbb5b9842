/** The documents by which a program that knows only the address of MCP finds its way. */
import { SCOPES, type Scope } from "../store/schema.ts";

/** Paths of the endpoints. */
export const AUTHORIZE_PATH = "/oauth/authorize";
export const TOKEN_PATH = "/oauth/token";
export const REVOKE_PATH = "/oauth/revoke";
export const REGISTER_PATH = "/oauth/register";
/**
 * Path of the metadata: with the path of the resource behind it (RFC 9728 §3.1), and by itself for programs that look only
 * there.
 */
const RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource";
const SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server";

const RESOURCE_PATH = "/api/mcp";

/** The scopes that a grant may have. */
export const GRANTABLE: readonly Scope[] = SCOPES.filter((scope) => scope !== "admin" && scope !== "approve");

/** Programs ask for it to be given refresh tokens, which everyone is given. */
export const OFFLINE = "offline_access";

/** The only resource that tokens are for, as its identifier. `baseUrl`: public origin. */
export const resourceIdentifier = (baseUrl: string): string => `${baseUrl}${RESOURCE_PATH}`;

/** URL that the 401 of MCP leads to. */
export const resourceMetadataUrl = (baseUrl: string): string => `${baseUrl}${RESOURCE_METADATA_PATH}${RESOURCE_PATH}`;

/** The documents by path. */
export function describeOAuth(baseUrl: string): [path: string, document: Record<string, unknown>][] {
  const resource = {
    resource: resourceIdentifier(baseUrl),
    authorization_servers: [baseUrl],
    scopes_supported: GRANTABLE,
    bearer_methods_supported: ["header"],
    resource_name: "Mailroom",
  };
  const server = {
    issuer: baseUrl,
    authorization_endpoint: baseUrl + AUTHORIZE_PATH,
    token_endpoint: baseUrl + TOKEN_PATH,
    revocation_endpoint: baseUrl + REVOKE_PATH,
    registration_endpoint: baseUrl + REGISTER_PATH,
    scopes_supported: [...GRANTABLE, OFFLINE],
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    token_endpoint_auth_methods_supported: ["none"],
    revocation_endpoint_auth_methods_supported: ["none"],
    code_challenge_methods_supported: ["S256"],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
  };
  return [
    [RESOURCE_METADATA_PATH, resource],
    [RESOURCE_METADATA_PATH + RESOURCE_PATH, resource],
    [SERVER_METADATA_PATH, server],
  ];
}
