/** LOGIN (RFC 9051 §6.2.3) and AUTHENTICATE PLAIN (RFC 4616, with the initial response of RFC 4959). */
import { AppError } from "../../base/errors.ts";
import type { Parser } from "../grammar.ts";
import { Refused, type Session } from "../session.ts";

const FAILED = new Refused("Wrong user name or password", "AUTHENTICATIONFAILED");

export async function login(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const username = parser.astring();
  parser.space();
  const password = parser.astring();
  parser.end();
  return signIn(session, username, password);
}

export async function authenticate(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const mechanism = parser.atom().toUpperCase();
  const initial = parser.take(" ") ? parser.astring() : undefined;
  parser.end();
  if (mechanism !== "PLAIN") throw new Refused("Only PLAIN is offered", "CANNOT");
  requireTls(session);
  if (initial === undefined) await session.wire.write("+ \r\n");
  const response = initial ?? (await session.wire.line());
  if (response === undefined || response === "*") throw new Refused("Cancelled");
  const [acting = "", username = "", password = ""] = Buffer.from(response === "=" ? "" : response, "base64")
    .toString()
    .split("\0");
  // RFC 4616 §2: nobody acts as another.
  if (acting !== "" && acting !== username) throw FAILED;
  return signIn(session, username, password);
}

function requireTls(session: Session): void {
  if (session.who) throw new Refused("You have signed in already", "CLIENTBUG");
  if (!session.wire.isSecure()) throw new Refused("Begin TLS first", "PRIVACYREQUIRED");
}

async function signIn(session: Session, username: string, secret: string): Promise<string> {
  requireTls(session);
  const { source, address, trace } = session;
  const { signIn: people, log } = session.parts;
  try {
    const who = await people.inApp({ username, secret, scope: "read", person: ["read", "write"], source, address });
    // The user name is left out: it may be a password in the wrong field.
    log.info(who ? "signed in" : "sign-in failed", { trace, ip: address, userId: who?.caller.userId, over: "imap" });
    if (!who) throw FAILED;
    session.who = who;
  } catch (error) {
    if (error instanceof AppError) throw new Refused(error.message, "UNAVAILABLE");
    throw error;
  }
  return "Welcome";
}
