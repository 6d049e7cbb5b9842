/**
 * LOGIN (RFC 9051 §6.2.3) and AUTHENTICATE (§6.2.2, with the initial response of RFC 4959): PLAIN (RFC 4616) with a password,
 * an app password or an API key, OAUTHBEARER (RFC 7628) with an access token or an API key.
 */
import { isKeyDeniedSignInCodes } from "../../access/caller.ts";
import type { SignedIn } from "../../access/sign-in.ts";
import { AppError } from "../../base/errors.ts";
import { Malformed, type Parser } from "../grammar.ts";
import { type ImapSession, Refused } from "../session.ts";

/** Error that the server sends before its reply to a client whose token failed; the client answers it (RFC 7628 §3.2.2). */
const TOKEN_FAILED = Buffer.from(JSON.stringify({ status: "invalid_token", scope: "read" })).toString("base64");

export async function runImapLogin(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const username = parser.astring();
  parser.space();
  const secret = parser.astring();
  parser.end();
  requireTls(session);
  return enter(session, withPassword(session, username, secret));
}

export async function runImapAuthenticate(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const mechanism = parser.atom().toUpperCase();
  const initial = parser.take(" ") ? parser.astring() : undefined;
  parser.end();
  if (mechanism !== "PLAIN" && mechanism !== "OAUTHBEARER") {
    throw new Refused("Only PLAIN and OAUTHBEARER are offered", "CANNOT");
  }
  requireTls(session);
  if (initial === undefined) await session.wire.write("+ \r\n");
  const response = decoded(initial === "=" ? "" : (initial ?? (await session.wire.line())));
  if (mechanism === "PLAIN") {
    const [acting, username, password, ...more] = response.split("\0");
    if (password === undefined || more.length > 0) throw new Malformed("expected three fields");
    // RFC 4616 §2: nobody acts as another.
    const isOther = acting !== "" && acting !== username;
    return enter(session, withPassword(session, isOther ? "" : (username ?? ""), isOther ? "" : password));
  }
  const { username, token } = bearerIn(response);
  const { source, address, trace } = session;
  const given = { username, secret: token, source, address, over: "imap", trace } as const;
  const proof = session.signIn.withToken({ ...given, scope: "read" });
  return enter(session, proof, async () => {
    await session.wire.write(`+ ${TOKEN_FAILED}\r\n`);
    await session.wire.line();
  });
}

/** The text of a base64 response. @throws Malformed, also if the client cancels */
function decoded(response: string | undefined): string {
  if (response === undefined || response === "*") throw new Malformed("cancelled");
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(response)) {
    throw new Malformed("expected base64");
  }
  return Buffer.from(response, "base64").toString();
}

/** Parses the message of a client that signs in with a token (RFC 7628 §3.1). @throws Malformed */
function bearerIn(response: string): { username: string; token: string } {
  const [gs2 = "", ...fields] = response.split("\x01");
  const header = /^[ny],(?:a=([^,]*))?,$/.exec(gs2);
  const token = fields.map((field) => /^auth=bearer +(\S+)$/i.exec(field)?.[1]).find((found) => found !== undefined);
  if (!header || token === undefined || !response.endsWith("\x01\x01")) {
    throw new Malformed("expected what RFC 7628 says");
  }
  return { username: (header[1] ?? "").replaceAll("=2C", ",").replaceAll("=3D", "="), token };
}

function requireTls(session: ImapSession): void {
  if (session.who) throw new Refused("You have signed in already", "CLIENTBUG");
  if (!session.wire.isSecure()) throw new Refused("Begin TLS first", "PRIVACYREQUIRED");
}

const withPassword = ({ signIn, source, address, trace }: ImapSession, username: string, secret: string) =>
  signIn.inApp({ username, secret, scopes: ["read", "write"], source, address, over: "imap", trace });

/** `failing`: what comes before the refusal of a proof. */
async function enter(
  session: ImapSession,
  proof: Promise<SignedIn | undefined>,
  failing: () => Promise<void> = async () => {},
): Promise<string> {
  const who = await proof.catch((error) => {
    throw error instanceof AppError ? new Refused(error.message, "UNAVAILABLE") : error;
  });
  if (!who) {
    await failing();
    throw new Refused("Wrong user name or password", "AUTHENTICATIONFAILED");
  }
  if (isKeyDeniedSignInCodes(who.caller))
    throw new Refused("This key reads no codes, and IMAP cannot hide them", "AUTHORIZATIONFAILED");
  session.who = who;
  return "Welcome";
}
