/** Calls about profile, second factor, app passwords, sessions, and the first run. */
import { queryOptions } from "@tanstack/react-query";
import type { AnswerOf } from "../../operations/operation.ts";
import type {
  createAppPassword,
  listAppPasswords,
  revokeAppPassword,
  setMailAppPreferences,
} from "../../operations/person/app-passwords.ts";
import type { checkSetupToken, getSetup, setUpServer } from "../../operations/person/first-run.ts";
import type { checkPasswordLink, choosePassword } from "../../operations/person/password-link.ts";
import type { changeName, changePassword } from "../../operations/person/profile.ts";
import type { confirmIdentity } from "../../operations/person/proof.ts";
import type {
  addSecondFactor,
  getSecondFactor,
  proposeSecondFactor,
  removeSecondFactor,
  renewRecoveryCodes,
} from "../../operations/person/second-factor.ts";
import type { endOtherSessions, endSession, listSessions } from "../../operations/person/session.ts";
import { type BodyOf, call } from "./call.ts";

export type AppPasswordView = AnswerOf<typeof listAppPasswords>["appPasswords"][number];
export type MailAppsView = AnswerOf<typeof listAppPasswords>["mailApps"];
export type QrView = AnswerOf<typeof proposeSecondFactor>["qr"];
export type SessionView = AnswerOf<typeof listSessions>["sessions"][number];
export type SetupView = AnswerOf<typeof setUpServer>;

export const SECOND_FACTOR = ["settings", "second-factor"] as const;
export const APP_PASSWORDS = ["settings", "app-passwords"] as const;
export const SESSIONS = ["settings", "sessions"] as const;

export const secondFactorQuery = queryOptions({
  queryKey: SECOND_FACTOR,
  queryFn: () => call<typeof getSecondFactor>("GET", "/me/second-factor"),
});

/** A new secret with its QR code at each request. It has no effect until it is confirmed. */
export const newSecondFactorQuery = queryOptions({
  queryKey: ["settings", "new-second-factor"],
  queryFn: () => call<typeof proposeSecondFactor>("POST", "/me/second-factor/new"),
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
});

export const appPasswordsQuery = queryOptions({
  queryKey: APP_PASSWORDS,
  queryFn: () => call<typeof listAppPasswords>("GET", "/app-passwords"),
});

export const sessionsQuery = queryOptions({
  queryKey: SESSIONS,
  queryFn: () => call<typeof listSessions>("GET", "/sessions"),
});

export const identityApi = {
  rename: (name: string) => call<typeof changeName>("PATCH", "/me", { body: { name } }),
  changePassword: (body: BodyOf<typeof changePassword>) =>
    call<typeof changePassword>("POST", "/me/password", { body }),
  /** Proves the person's identity for some minutes. */
  confirm: (body: BodyOf<typeof confirmIdentity>) => call<typeof confirmIdentity>("POST", "/me/confirm", { body }),
  addSecondFactor: (body: BodyOf<typeof addSecondFactor>) =>
    call<typeof addSecondFactor>("POST", "/me/second-factor", { body }),
  renewRecoveryCodes: (body: BodyOf<typeof renewRecoveryCodes>) =>
    call<typeof renewRecoveryCodes>("POST", "/me/second-factor/recovery-codes", { body }),
  removeSecondFactor: (body: BodyOf<typeof removeSecondFactor>) =>
    call<typeof removeSecondFactor>("POST", "/me/second-factor/remove", { body }),
  createAppPassword: (body: BodyOf<typeof createAppPassword>) =>
    call<typeof createAppPassword>("POST", "/app-passwords", { body }),
  revokeAppPassword: (id: string) => call<typeof revokeAppPassword>("DELETE", "/app-passwords/:id", { params: { id } }),
  setMailApps: (body: BodyOf<typeof setMailAppPreferences>) =>
    call<typeof setMailAppPreferences>("PATCH", "/me/mail-apps", { body }),
  endSession: (id: string) => call<typeof endSession>("DELETE", "/sessions/:id", { params: { id } }),
  endOtherSessions: () => call<typeof endOtherSessions>("DELETE", "/sessions"),
};

/** `due`: the server has no workspace yet. */
export const setupQuery = queryOptions({
  queryKey: ["setup"],
  queryFn: () => call<typeof getSetup>("GET", "/setup"),
});

export const setupApi = {
  /** Rejects with the refusal of a token that does not set up this server. */
  check: (token: string) => call<typeof checkSetupToken>("POST", "/setup/token", { body: { token } }),
  setUp: (body: BodyOf<typeof setUpServer>) => call<typeof setUpServer>("POST", "/setup", { body }),
};

/** Whom a link to choose a password is for. */
export type InvitedView = AnswerOf<typeof checkPasswordLink>;

export const passwordLinkApi = {
  /** Rejects with the refusal of a link that does not work. */
  check: (token: string) => call<typeof checkPasswordLink>("POST", "/password-link/token", { body: { token } }),
  choose: (body: BodyOf<typeof choosePassword>) => call<typeof choosePassword>("POST", "/password-link", { body }),
};
