/**
 * The cookie with a session's token (RFC 6265bis). Scripts cannot read it, and requests from other sites do not carry it.
 * Under https, the prefix `__Host-` also stops other hosts of the domain from setting it.
 */
import { LONGEST_SESSION_MS } from "../access/sessions.ts";

export interface SessionCookie {
  /** The token that a request carries. */
  read(request: Request): string | undefined;
  /** Value of Set-Cookie with the token. `kept`: the browser keeps it after it is closed. */
  give(token: string, persistent: boolean): string;
  /** Value of Set-Cookie that removes it. */
  drop(): string;
}

/** `secure`: the public origin is https. */
export function createSessionCookie({ secure }: { secure: boolean }): SessionCookie {
  const name = secure ? "__Host-mailroom" : "mailroom";
  const attributes = `Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return {
    read(request) {
      for (const pair of (request.headers.get("cookie") ?? "").split(";")) {
        const [key, value] = pair.trim().split("=", 2);
        if (key === name && value !== undefined && value !== "") return value;
      }
      return undefined;
    },
    give: (token, persistent) =>
      `${name}=${token}; ${persistent ? `Max-Age=${LONGEST_SESSION_MS / 1_000}; ` : ""}${attributes}`,
    drop: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}
