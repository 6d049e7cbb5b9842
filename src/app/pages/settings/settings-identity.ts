/** Queries of profile, second factor, app passwords, sessions, and the first run. */
import { queryOptions } from "@tanstack/react-query";
import { type Answer, api } from "../../lib/api-client.ts";

export type AppPasswordView = Answer<"listAppPasswords">["appPasswords"][number];
export type MailAppsView = Answer<"listAppPasswords">["mailApps"];
export type QrView = Answer<"proposeSecondFactor">["qr"];
export type SessionView = Answer<"listSessions">["sessions"][number];
export type SetupView = Answer<"setUpServer">;

export const SECOND_FACTOR = ["settings", "second-factor"] as const;
export const APP_PASSWORDS = ["settings", "app-passwords"] as const;
export const SESSIONS = ["settings", "sessions"] as const;

export const secondFactorQuery = queryOptions({
  queryKey: SECOND_FACTOR,
  queryFn: () => api.getSecondFactor(),
});

/** A new secret with its QR code at each request. It has no effect until it is confirmed. */
export const newSecondFactorQuery = queryOptions({
  queryKey: ["settings", "new-second-factor"],
  queryFn: () => api.proposeSecondFactor(),
  staleTime: Number.POSITIVE_INFINITY,
  gcTime: 0,
});

export const appPasswordsQuery = queryOptions({
  queryKey: APP_PASSWORDS,
  queryFn: () => api.listAppPasswords(),
});

export const sessionsQuery = queryOptions({
  queryKey: SESSIONS,
  queryFn: () => api.listSessions(),
});

/** `due`: the server has no workspace yet. */
export const setupQuery = queryOptions({
  queryKey: ["setup"],
  queryFn: () => api.getSetup(),
});

/** Whom a link to choose a password is for. */
export type InvitedView = Answer<"checkPasswordLink">;
