/**
 * Composes the parts by which people prove who they are: sign-in, slowed-down guessing, second factors, and last uses.
 */
import { join } from "node:path";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Store } from "../store/store.ts";
import { noteAppPasswordUse } from "./app-passwords.ts";
import { createLastUse, noteKeyUse, sweepSessionKeys } from "./credentials.ts";
import { openSeal } from "./seal.ts";
import { createSecondFactors } from "./second-factor.ts";
import { createSessionSweep, createSessionUse } from "./sessions.ts";
import { createSignIn } from "./sign-in.ts";
import { createSignInSources } from "./sign-in-sources.ts";
import { createSlowdown } from "./slowdown.ts";

export type Identity = ReturnType<typeof openIdentity>;

/** The key that seals second factors. Backups exclude its folder (backup/make.ts). */
export const sealKeyIn = (folder: string): string => join(folder, "keys", "second-factor.key");

/** `folder`: the data folder. */
export function openIdentity({
  store,
  runtime,
  folder,
  log,
}: {
  store: Store;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  folder: string;
  log: Log;
}) {
  const secondFactors = createSecondFactors(openSeal(sealKeyIn(folder), runtime, log), runtime);
  const slowdown = createSlowdown(runtime);
  const touchKey = createLastUse(store, log, "an API key", noteKeyUse);
  const touchAppPassword = createLastUse(store, log, "an app password", noteAppPasswordUse);
  const signInSources = createSignInSources({ store, runtime, log });
  return {
    secondFactors,
    slowdown,
    touchKey,
    touchSession: createSessionUse(store, log),
    signIn: createSignIn({ store, slowdown, secondFactors, touchKey, touchAppPassword, signInSources, runtime, log }),
    signInSources,
    sweepSessions: createSessionSweep(store),
    sweepSessionKeys: sweepSessionKeys(store),
  };
}
