/** Requests about profile, second factor, app passwords, sessions, and the first run. */
import { queryOptions } from "@tanstack/react-query";
import type {
  AppPasswordListView,
  NewAppPasswordView,
  NewSecondFactorView,
  RecoveryCodesView,
  SecondFactorView,
  SessionView,
  SetupView,
} from "../../http/identity-views.ts";
import { ask, idOf } from "./ask.ts";

export type { AppPasswordView, MailAppsView, QrView, SessionView, SetupView } from "../../http/identity-views.ts";

export const SECOND_FACTOR = ["settings", "second-factor"] as const;
export const APP_PASSWORDS = ["settings", "app-passwords"] as const;
export const SESSIONS = ["settings", "sessions"] as const;

export const secondFactorQuery = queryOptions({
  queryKey: SECOND_FACTOR,
  queryFn: () => ask<SecondFactorView>("GET", "/me/second-factor"),
});

/** A new secret with its QR code at each request. It has no effect until it is confirmed. */
export const newSecondFactorQuery = queryOptions({
  queryKey: ["settings", "new-second-factor"],
  queryFn: () => ask<NewSecondFactorView>("POST", "/me/second-factor/new", {}),
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
});

export const appPasswordsQuery = queryOptions({
  queryKey: APP_PASSWORDS,
  queryFn: () => ask<AppPasswordListView>("GET", "/app-passwords"),
});

export const sessionsQuery = queryOptions({
  queryKey: SESSIONS,
  queryFn: () => ask<{ sessions: SessionView[] }>("GET", "/sessions"),
});

interface Proof {
  password: string;
  code: string;
}

export const identityApi = {
  rename: (name: string) => ask<void>("PATCH", "/me", { name }),
  changePassword: (given: { present: string; code?: string; next: string; endAppsAndKeys: boolean }) =>
    ask<void>("POST", "/me/password", given),
  /** Proves the person's identity for some minutes. */
  confirm: (given: { password: string; code?: string }) => ask<void>("POST", "/me/confirm", given),
  addSecondFactor: (given: Proof & { secret: string }) => ask<RecoveryCodesView>("POST", "/me/second-factor", given),
  renewRecoveryCodes: (given: Proof) => ask<RecoveryCodesView>("POST", "/me/second-factor/recovery-codes", given),
  removeSecondFactor: (given: Proof) => ask<void>("POST", "/me/second-factor/remove", given),
  createAppPassword: (name: string) => ask<NewAppPasswordView>("POST", "/app-passwords", { name }),
  revokeAppPassword: (id: string) => ask<void>("DELETE", `/app-passwords/${idOf(id)}`),
  endSession: (id: string) => ask<void>("DELETE", `/sessions/${idOf(id)}`),
  endOtherSessions: () => ask<void>("DELETE", "/sessions"),
};

/** `due`: the server has no workspace yet. */
export const setupQuery = queryOptions({
  queryKey: ["setup"],
  queryFn: () => ask<{ due: boolean }>("GET", "/setup"),
});

export const setupApi = {
  /** Rejects with the refusal of a token that does not set up this server. */
  check: (token: string) => ask<void>("POST", "/setup/token", { token }),
  setUp: (given: {
    token: string;
    domain: string;
    email: string;
    name: string;
    workspace?: string;
    password: string;
  }) => ask<SetupView>("POST", "/setup", given),
};
