/**
 * Composes the parts by which people prove who they are: sign-in, slowed-down guessing, second factors, and last uses.
 */
import { join } from "node:path";
import type { Core } from "../store/core.ts";
import { noteAppPasswordUse } from "./app-passwords.ts";
import { createLastUseRecorder, noteKeyUse } from "./credentials.ts";
import { openSecretSeal } from "./seal.ts";
import { createSecondFactors } from "./second-factor.ts";
import { createSignIn } from "./sign-in.ts";
import { createSlowdown } from "./slowdown.ts";

export type Identity = ReturnType<typeof openSignInServices>;

/** The key that seals second factors. Backups exclude its folder (backup/make.ts). */
export const secondFactorKeyPath = (folder: string): string => join(folder, "keys", "second-factor.key");

export function openSignInServices(core: Core) {
  const { runtime, log, site } = core;
  const secondFactors = createSecondFactors(openSecretSeal(secondFactorKeyPath(site.folder), runtime, log), runtime);
  const slowdown = createSlowdown(runtime);
  const touchKey = createLastUseRecorder(core, "an API key", noteKeyUse);
  const touchAppPassword = createLastUseRecorder(core, "an app password", noteAppPasswordUse);
  const signIn = createSignIn(core, { slowdown, secondFactors, touchKey, touchAppPassword });
  return { secondFactors, slowdown, touchKey, signIn };
}
