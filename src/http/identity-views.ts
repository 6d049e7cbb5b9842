/** What the routes of signing in and of what one signs in with answer; the browser code reads these types too. Times are ISO 8601. */
import type { DnsRecord } from "../admin/dns.ts";

/** POST /app/sign-in, unless it is done: the password was right, and a code of the second factor is asked for. */
export interface SignInView {
  next: "code";
}

/** Of GET /app/sessions. */
export interface SessionView {
  id: string;
  /** In words. */
  browser: string;
  /** Address, or for IPv6 network, where it was begun. */
  source: string;
  createdAt: string;
  lastUsedAt: string;
  /** The one that asks. */
  current: boolean;
}

/** GET /app/me/second-factor. */
export interface SecondFactorView {
  /** Null while there is none. */
  since: string | null;
  /** Recovery codes that are left. */
  recoveryCodes: number;
}

/** For an SVG whose viewBox is `size` by `size`; what is dark is inside the path. The quiet zone is part of it. */
export interface QrView {
  size: number;
  path: string;
}

/** POST /app/me/second-factor/new: a secret that counts once it comes back with a code of it. */
export interface NewSecondFactorView {
  /** Base32. */
  secret: string;
  qr: QrView;
}

/** Seen here and never again. */
export interface RecoveryCodesView {
  recoveryCodes: string[];
}

export interface AppPasswordView {
  id: string;
  name: string;
  createdAt: string;
  lastUsedAt: string | null;
}

/** GET /app/app-passwords: newest first. */
export interface AppPasswordListView {
  appPasswords: AppPasswordView[];
  mailApps: MailAppsView;
}

/** What a mail app is to be told. */
export interface MailAppsView {
  host: string;
  /** With STARTTLS; null where it does not listen. */
  submission: number | null;
  /** With TLS from the start. */
  submissions: number | null;
}

/** POST /app/app-passwords. */
export interface NewAppPasswordView {
  id: string;
  /** Seen here and never again. */
  password: string;
}

/** POST /app/setup. */
export interface SetupView {
  address: string;
  /** Seen here and never again. */
  apiKey: string;
  dns: DnsRecord[];
}
