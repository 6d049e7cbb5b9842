/** The first run, open to holders of the token that the server printed, only while there is no workspace. */

import { startSession } from "../../access/sessions.ts";
import { createSlots } from "../../access/sign-in.ts";
import type { Slowdown } from "../../access/slowdown.ts";
import type { FirstRun } from "../../admin/first-run.ts";
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { SetupView } from "../identity-views.ts";
import type { OpenRoute } from "../route.ts";
import type { SessionCookie } from "../session-cookie.ts";
import { bodyOf, done } from "./asked.ts";

export interface FirstRunParts {
  store: Pick<Store, "transact">;
  firstRun: FirstRun;
  cookie: SessionCookie;
  identity: { slowdown: Slowdown };
  runtime: Pick<Runtime, "now" | "randomBytes">;
}

const MOST_BYTES = 16_384;
const token = t.String({ maxLength: 200 });
const readToken = bodyOf(t.Object({ token }), MOST_BYTES);
const readSetup = bodyOf(
  t.Object({
    token,
    domain: t.String(),
    email: t.String(),
    name: t.String(),
    workspace: t.Optional(t.String()),
    password: t.String(),
  }),
  MOST_BYTES,
);

/** Guesses of one source at once, and waiting. */
const GUESSES = { atOnce: 1, mostWaiting: 20 };

export function firstRunRoutes({ store, firstRun, cookie, identity, runtime }: FirstRunParts): OpenRoute[] {
  const slots = createSlots(GUESSES);

  /** @throws AppError conflict once there is a workspace; forbidden for a wrong token, after a delay */
  async function requireToken(token: string, source: string): Promise<void> {
    if (!firstRun.isDue()) throw new AppError("conflict", "This server is set up: sign in");
    if (firstRun.admits(token)) return;
    await slots.within(source, () => identity.slowdown.failed(source));
    throw new AppError("forbidden", "This link does not set up this server: open the one that it printed last");
  }

  return [
    {
      method: "GET",
      path: "/setup",
      run: (): { due: boolean } => ({ due: firstRun.isDue() }),
    },
    {
      // Body {token}: checks it.
      method: "POST",
      path: "/setup/token",
      async run({ request, source }) {
        await requireToken((await readToken({ request })).token, source);
        return done();
      },
    },
    {
      // Body {token, domain, email, name, workspace?, password}: as `mailroom setup`, and the owner is signed in.
      method: "POST",
      path: "/setup",
      async run({ request, source }) {
        const { token, ...given } = await readSetup({ request });
        await requireToken(token, source);
        const { userId, address, apiKey, dns } = await firstRun.setUp(given);
        const userAgent = request.headers.get("user-agent") ?? "";
        const session = store.transact((tx) => startSession(tx, runtime, { userId, userAgent, source, kept: true }));
        const answer: SetupView = { address, apiKey, dns };
        return Response.json(answer, { headers: { "set-cookie": cookie.give(session.token, true) } });
      },
    },
  ];
}
