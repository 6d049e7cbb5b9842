/**
 * The cookie that carries a session's token (RFC 6265bis). Scripts cannot read it, and no request that another site
 * starts carries it. Under https no other host of the domain can set it either: that is what `__Host-` asks of a browser.
 */
import { LONGEST_SESSION_MS } from "../access/sessions.ts";

export interface SessionCookie {
  /** The token that a request carries. */
  read(request: Request): string | undefined;
  /** Value of Set-Cookie that gives the token to the browser; `kept`: for longer than until it is closed. */
  give(token: string, kept: boolean): string;
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
    give: (token, kept) => `${name}=${token}; ${kept ? `Max-Age=${LONGEST_SESSION_MS / 1_000}; ` : ""}${attributes}`,
    drop: () => `${name}=; Max-Age=0; ${attributes}`,
  };
}
