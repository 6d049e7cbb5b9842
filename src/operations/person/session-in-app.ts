/** Sign-in, sign-out, the person's own data, and their sessions. */
import * as sessions from "../../access/sessions.ts";
import * as people from "../../admin/people.ts";
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import { latestChange } from "../../mailbox/changing/change-feed.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

const NO_MATCH = "Email address and password do not match";
const NO_MATCH_WITH_CODE = "Email address, password and code do not match. Each code works once: wait for the next one";

/**
 * Answers nothing when the person is signed in, and `next: "code"` when the password was right and a code of the second
 * factor is missing. A refusal does not tell what was wrong (rules: Sign-in failures). A browser that was signed in
 * gets a new session, and its former one ends, so that a token that was planted or copied before is worthless. Without
 * `keep`, the session ends with the browser.
 */
export const signIn = defineAppOperation({
  name: "signIn",
  audience: "visitor",
  method: "POST",
  path: "/sign-in",
  onStandby: true,
  body: t.Object({
    email: t.String({ maxLength: 320 }),
    password: t.String({ maxLength: 1_024 }),
    code: t.Optional(t.String({ maxLength: 64 })),
    keep: t.Optional(t.Boolean()),
  }),
  largestBody: 16_384,
  async run(
    { core, identity, source, userAgent, token: formerToken, giveToken },
    { body: { email, password, code, keep: persistent = true } },
  ): Promise<{ next: "code" } | undefined> {
    const given = { username: email, secret: password, code, source, over: "app" } as const;
    const signedIn = await identity.signIn.inBrowser(given);
    if (signedIn === "code") return { next: "code" };
    const { token, userId } = core.store.transact((tx) => {
      // The password may have changed, or the person been removed, during the check.
      const caller = signedIn?.present();
      if (!caller) throw new AppError("unauthorized", code === undefined ? NO_MATCH : NO_MATCH_WITH_CODE);
      const former = formerToken === undefined ? undefined : sessions.findSession(tx, formerToken, core.now());
      if (former) sessions.endSession(tx, former.caller.userId, former.id, core.now());
      const { userId } = caller;
      return { userId, ...sessions.startSession(tx, core.runtime, { userId, userAgent, source, persistent }) };
    });
    giveToken(token, persistent);
    await core.store
      .note((tx) => people.noteShortPassword(tx, userId, password))
      .catch((error) => {
        core.log.warn("the length of a password was not noted", { error });
      });
    return undefined;
  },
});

export const getMe = defineAppOperation({
  name: "getMe",
  audience: "person",
  method: "GET",
  path: "/me",
  run: ({ core, session: { name }, caller: { userId, email, role } }) => ({
    id: userId,
    name,
    email,
    role,
    shortPassword: people.hasShortPassword(core, userId),
    /** Position in the feed of changes, from which /app/live goes on without a gap. */
    news: latestChange(core.db),
  }),
});

export const signOut = defineAppOperation({
  name: "signOut",
  audience: "person",
  method: "POST",
  path: "/sign-out",
  onStandby: true,
  run({ core, caller, session, dropToken }) {
    core.store.transact((tx) => sessions.endSession(tx, caller.userId, session.id, core.now()));
    dropToken();
  },
});

export const listSessions = defineAppOperation({
  name: "listSessions",
  audience: "person",
  method: "GET",
  path: "/sessions",
  run: ({ core, caller, session }) => ({
    sessions: sessions
      .listSessions(core.db, caller.userId, core.now())
      .map(({ id, userAgent, source, createdAt, lastUsedAt }) => ({
        id,
        browser: describeUserAgent(userAgent),
        /** The address from which it was begun; for IPv6, the network. */
        source,
        /** True of the session of this request. */
        current: id === session.id,
        createdAt: toIsoTime(createdAt),
        lastUsedAt: toIsoTime(lastUsedAt),
      })),
  }),
});

export const endSession = defineAppOperation({
  name: "endSession",
  audience: "person",
  method: "DELETE",
  path: "/sessions/:id",
  onStandby: true,
  params: BY_ID,
  run({ core, caller, session, dropToken }, { params: { id } }) {
    if (!core.store.transact((tx) => sessions.endSession(tx, caller.userId, id, core.now()))) {
      throw new AppError("not_found", "You have no such session");
    }
    if (id === session.id) dropToken();
  },
});

export const endOtherSessions = defineAppOperation({
  name: "endOtherSessions",
  audience: "person",
  method: "DELETE",
  path: "/sessions",
  onStandby: true,
  run({ core, caller, session }) {
    core.store.transact((tx) => sessions.endSessions(tx, caller.userId, core.now(), session.id));
  },
});

/*
 * Names a browser and its system from a User-Agent header, so that people recognise their sessions. An unknown header
 * is shown as it is, shortened.
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
/** Characters of a program's description of itself that are read. */
const LONGEST_READ = 500;

const nameIn = (names: typeof BROWSERS, userAgent: string): string | undefined =>
  names.find(([pattern]) => pattern.test(userAgent))?.[1];

/** Describes a browser and its system, such as `Firefox on Windows`. */
export function describeUserAgent(userAgent: string): string {
  const read = userAgent.slice(0, LONGEST_READ);
  const browser = nameIn(BROWSERS, read);
  const system = nameIn(SYSTEMS, read);
  if (browser === undefined && system === undefined)
    return userAgent.trim().slice(0, LONGEST_NAME) || "An unnamed program";
  return `${browser ?? "A browser"}${system === undefined ? "" : ` on ${system}`}`;
}
