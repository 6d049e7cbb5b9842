/** The first run, for browsers with the token that the server printed, while there is no workspace. */
import { startSession } from "../../access/sessions.ts";
import { t } from "../../base/json-schema.ts";
import { defineAppOperation } from "../operation.ts";

const LARGEST_BODY = 16_384;
const token = t.String({ maxLength: 200 });

/** `due`: the server has no workspace yet. */
export const getSetup = defineAppOperation({
  name: "getSetup",
  audience: "visitor",
  method: "GET",
  path: "/setup",
  run: ({ firstRun }) => ({ due: firstRun.isDue() }),
});

export const checkSetupToken = defineAppOperation({
  name: "checkSetupToken",
  audience: "visitor",
  method: "POST",
  path: "/setup/token",
  body: t.Object({ token }),
  largestBody: LARGEST_BODY,
  run: ({ firstRun, identity, source }, { body }) => firstRun.requireToken(body.token, source, identity.slowdown),
});

/** Does what `mailroom setup` does (rules: Setup), and signs the owner in. The API key is told here and never again. */
export const setUpServer = defineAppOperation({
  name: "setUpServer",
  audience: "visitor",
  method: "POST",
  path: "/setup",
  body: t.Object({
    token,
    domain: t.String(),
    email: t.String(),
    name: t.String(),
    workspace: t.Optional(t.String()),
    password: t.String(),
  }),
  largestBody: LARGEST_BODY,
  async run({ core, firstRun, identity, source, userAgent, giveToken }, { body: { token, ...given } }) {
    await firstRun.requireToken(token, source, identity.slowdown);
    const { userId, address, apiKey, dns } = await firstRun.setUp(given);
    const session = core.store.transact((tx) =>
      startSession(tx, core.runtime, { userId, userAgent, source, persistent: true }),
    );
    giveToken(session.token, true);
    return { address, apiKey, dns };
  },
});
