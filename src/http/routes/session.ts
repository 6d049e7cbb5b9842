/** Sign-in, sign-out, the person's own data, and their sessions. */

import { endSession, endSessions, findSession, listSessions, startSession } from "../../access/sessions.ts";
import type { SignIn } from "../../access/sign-in.ts";
import { AppError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import { latestChange } from "../../mailbox/changes.ts";
import { isoOf } from "../../operations/admin/common.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { SessionView, SignInView } from "../identity-views.ts";
import type { Asked, OpenRoute, Route } from "../route.ts";
import type { SessionCookie } from "../session-cookie.ts";
import type { Person } from "../views.ts";
import { bodyOf, done } from "./asked.ts";

export interface SessionParts {
  store: Pick<Store, "db" | "transact">;
  cookie: SessionCookie;
  identity: { signIn: Pick<SignIn, "inBrowser"> };
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

const MOST_SIGN_IN_BYTES = 16_384;

const readSignIn = bodyOf(
  t.Object({
    email: t.String({ maxLength: 320 }),
    password: t.String({ maxLength: 1_024 }),
    code: t.Optional(t.String({ maxLength: 64 })),
    keep: t.Optional(t.Boolean()),
  }),
  MOST_SIGN_IN_BYTES,
);

/**
 * POST /app/sign-in `{email, password, code?, keep?}`: 204 with the cookie, which without `keep` ends with the browser; 200
 * SignInView when a code is missing; 401 says nothing of what was wrong (rules: Sign-in failures). A browser that was
 * signed in gets a new session, and the former one ends, so that a token that was planted or copied before is
 * worthless.
 */
export function signInRoute({ store, cookie, identity, runtime, log }: SessionParts): OpenRoute {
  return {
    method: "POST",
    path: "/sign-in",
    async run({ request, source }): Promise<Response | SignInView> {
      const { email, password, code, keep: kept = true } = await readSignIn({ request });
      const signedIn = await identity.signIn.inBrowser({ username: email, secret: password, code, source });
      if (signedIn === "code") return { next: "code" };
      // Without the given address, which may be a password in the wrong field.
      log.info(signedIn ? "signed in" : "sign-in failed", { source, userId: signedIn?.caller.userId });
      const { token } = store.transact((tx) => {
        // The password may have changed, or the person been removed, during the check.
        const caller = signedIn?.present();
        if (!caller) throw new AppError("unauthorized", code === undefined ? NO_MATCH : NO_MATCH_WITH_CODE);
        const token = cookie.read(request);
        const former = token === undefined ? undefined : findSession(tx, token, runtime.now());
        if (former) endSession(tx, former.caller.userId, former.id);
        const userAgent = request.headers.get("user-agent") ?? "";
        return startSession(tx, runtime, { userId: caller.userId, userAgent, source, kept });
      });
      return new Response(null, { status: 204, headers: { "set-cookie": cookie.give(token, kept) } });
    },
  };
}

const NO_MATCH = "Email address and password do not match";
const NO_MATCH_WITH_CODE =
  "Email address, password and code do not match. Each code counts once: wait for the next one";

export function sessionRoutes({ store, cookie, runtime }: Omit<SessionParts, "identity" | "log">): Route[] {
  const signedOut = () => new Response(null, { status: 204, headers: { "set-cookie": cookie.drop() } });
  return [
    {
      method: "GET",
      path: "/me",
      run({ session: { name, caller } }: Asked): Person {
        return { id: caller.userId, name, email: caller.email, role: caller.role, news: latestChange(store.db) };
      },
    },
    {
      method: "POST",
      path: "/sign-out",
      run({ session }) {
        store.transact((tx) => endSession(tx, session.caller.userId, session.id));
        return signedOut();
      },
    },
    {
      method: "GET",
      path: "/sessions",
      run({ session }): { sessions: SessionView[] } {
        const sessions = listSessions(store.db, session.caller.userId, runtime.now());
        return {
          sessions: sessions.map(({ id, userAgent, source, createdAt, lastUsedAt }) => ({
            ...{ id, browser: describeUserAgent(userAgent), source, current: id === session.id },
            ...{ createdAt: isoOf(createdAt), lastUsedAt: isoOf(lastUsedAt) },
          })),
        };
      },
    },
    {
      method: "DELETE",
      path: "/sessions/:id",
      run({ session, params }) {
        if (!store.transact((tx) => endSession(tx, session.caller.userId, params.id ?? ""))) {
          throw new AppError("not_found", "There is no such session of yours");
        }
        return params.id === session.id ? signedOut() : done();
      },
    },
    {
      // Ends all sessions but this one.
      method: "DELETE",
      path: "/sessions",
      run({ session }) {
        store.transact((tx) => endSessions(tx, session.caller.userId, session.id));
        return done();
      },
    },
  ];
}

/*
 * Names a browser and its system from a User-Agent header, so that people recognise their sessions. An unknown header is
 * shown as it is, shortened.
 */

/** The first match counts, since many browsers also name others. */
const BROWSERS: readonly [RegExp, string][] = [
  [/\bEdgA?(?:iOS)?\//, "Edge"],
  [/\bOPR\/|\bOpera\b/, "Opera"],
  [/\bVivaldi\//, "Vivaldi"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Headless)?Chrome\/|\bCriOS\/|\bChromium\//, "Chrome"],
  [/\bVersion\/[\d.]+.*\bSafari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bAndroid\b/, "Android"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b|\bMacintosh\b/, "macOS"],
  [/\bLinux\b|\bX11\b/, "Linux"],
];
const LONGEST_NAME = 40;

const nameIn = (names: typeof BROWSERS, userAgent: string): string | undefined =>
  names.find(([pattern]) => pattern.test(userAgent))?.[1];

/** Such as `Firefox on Windows`. */
export function describeUserAgent(userAgent: string): string {
  const browser = nameIn(BROWSERS, userAgent);
  const system = nameIn(SYSTEMS, userAgent);
  if (browser === undefined && system === undefined)
    return userAgent.trim().slice(0, LONGEST_NAME) || "An unnamed program";
  return `${browser ?? "A browser"}${system === undefined ? "" : ` on ${system}`}`;
}
