/**
 * Reads the environment into a frozen Config, once at start (rules: Environment). No other file reads process.env. A
 * bad value is a ConfigError with the variable and the values that it takes.
 */
import { ConfigError } from "./base/errors.ts";
import type { S3Location } from "./net/s3.ts";

/** Address of a listener; `off` does not start it. Port 0 picks a free one. */
export type Listen = { host: string; port: number } | "off";

/** Whether mail apps may read here. */
export const servesImap = ({ imap, imaps }: Pick<Config, "imap" | "imaps">): boolean =>
  imap !== "off" || imaps !== "off";

export type TlsMode =
  | { mode: "self-signed" }
  | { mode: "files"; cert: string; key: string }
  /** `directory`: URL of the authority's directory; `email`: address for its mail. */
  | { mode: "acme"; directory: string; email: string | undefined; challenge: ChallengeMode };

/** How the authority checks our names (RFC 8555 §8, RFC 8737). */
export type ChallengeMode =
  | { type: "http" }
  | { type: "tls-alpn" }
  /** `program`: path of the program that is called as `present|cleanup NAME VALUE`. */
  | { type: "dns-hook"; program: string };

export interface Config {
  /** The data folder. */
  readonly data: string;
  /** Public origin, without a trailing slash. */
  readonly baseUrl: string;
  readonly http: Listen;
  /** When it is on, `http` does little more than redirect. */
  readonly https: Listen;
  readonly mx: Listen;
  /** For mail apps: STARTTLS before AUTH. */
  readonly submission: Listen;
  /** For mail apps: implicit TLS. */
  readonly submissions: Listen;
  /** For mail apps that read: STARTTLS before signing in. */
  readonly imap: Listen;
  /** For mail apps that read: implicit TLS. */
  readonly imaps: Listen;
  readonly tls: TlsMode;
  /** Name in EHLO, greeting and Received. */
  readonly hostname: string;
  /** DNS servers as `ip` or `ip:port`; empty means the system's. */
  readonly dns: readonly string[];
  /** CIDRs whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Where the blobs are; undefined for the data folder. */
  readonly blobs: S3Location | undefined;
  /** Where the database is replicated to; undefined for nowhere. */
  readonly replica: S3Location | undefined;
  readonly log: "debug" | "info" | "warn" | "error" | "silent";
}

export type Environment = Readonly<Record<string, string | undefined>>;

function parseListen(name: string, value: string): Listen {
  if (value === "off") return "off";
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(value);
  const port = Number(match?.[3]);
  if (!match || port > 65535) {
    throw new ConfigError(`${name} is "${value}": give host:port, such as 127.0.0.1:8025 or [::]:25, or off`);
  }
  return { host: (match[1] ?? match[2]) as string, port };
}

function parseBaseUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search || url.hash || url.username) {
    throw new ConfigError(
      `MAILROOM_BASE_URL is "${value}": give an http or https origin, such as https://mail.example.com`,
    );
  }
  return url.origin;
}

const LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory";

function parseTls(env: Environment): TlsMode {
  const value = env.MAILROOM_TLS || "self-signed";
  if (value === "self-signed") return { mode: "self-signed" };
  if (value === "acme") return parseAcme(env);
  const files = /^files:([^,]+),([^,]+)$/.exec(value);
  if (!files) throw new ConfigError(`MAILROOM_TLS is "${value}": give self-signed, acme or files:CERT,KEY`);
  return { mode: "files", cert: files[1] as string, key: files[2] as string };
}

function parseAcme(env: Environment): TlsMode {
  const directory = env.MAILROOM_ACME_DIRECTORY || LETS_ENCRYPT;
  if (!URL.canParse(directory) || new URL(directory).protocol !== "https:") {
    throw new ConfigError(`MAILROOM_ACME_DIRECTORY is "${directory}": give the https URL of an ACME directory`);
  }
  const email = env.MAILROOM_ACME_EMAIL || undefined;
  if (email !== undefined && !/^[^\s@,]+@[^\s@,]+$/.test(email)) {
    throw new ConfigError(`MAILROOM_ACME_EMAIL is "${email}": give one e-mail address`);
  }
  return { mode: "acme", directory, email, challenge: parseChallenge(env.MAILROOM_ACME_CHALLENGE || "http") };
}

function parseChallenge(value: string): ChallengeMode {
  if (value === "http" || value === "tls-alpn") return { type: value };
  const [, program] = /^dns-hook:(\/[^\0]+)$/.exec(value) ?? [];
  if (program !== undefined) return { type: "dns-hook", program };
  if (value.startsWith("dns-update:")) {
    throw new ConfigError(
      `MAILROOM_ACME_CHALLENGE is "${value}", which this version does not know: give dns-hook:/PATH of packaging/nsupdate-hook, with NSUPDATE_SERVER and NSUPDATE_KEY`,
    );
  }
  throw new ConfigError(`MAILROOM_ACME_CHALLENGE is "${value}": give http, tls-alpn or dns-hook:/PATH`);
}

/** Requires the listener that the challenge uses, and a public name. @throws ConfigError */
function checkAcme({ tls, http, https, hostname }: Pick<Config, "tls" | "http" | "https" | "hostname">): void {
  if (tls.mode !== "acme") return;
  if (tls.challenge.type === "http" && http === "off") {
    throw new ConfigError(
      "MAILROOM_TLS=acme needs MAILROOM_HTTP: the authority asks there, at port 80 of your address (or set MAILROOM_ACME_CHALLENGE)",
    );
  }
  if (tls.challenge.type === "tls-alpn" && https === "off") {
    throw new ConfigError(
      "MAILROOM_ACME_CHALLENGE=tls-alpn needs MAILROOM_HTTPS: the authority asks there, at port 443 of your address",
    );
  }
  if (!/[a-z]$/i.test(hostname) || !hostname.includes(".")) {
    throw new ConfigError(`MAILROOM_TLS=acme needs MAILROOM_HOSTNAME to be a public host name; it is "${hostname}"`);
  }
}

const S3_FORM = "give s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION";

/** Reads `s3://BUCKET/PREFIX?endpoint=…&region=…`; both parameters may be left out for Amazon's own. @throws ConfigError */
function parseS3(name: string, env: Environment): S3Location | undefined {
  const value = env[name];
  if (!value) return undefined;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const [, bucket] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:[/?]|$)/.exec(value) ?? [];
  const path = url?.pathname.replaceAll(/^\/+|\/+$/g, "") ?? "";
  const unknown = [...(url?.searchParams.keys() ?? [])].find((key) => key !== "endpoint" && key !== "region");
  if (!url || bucket === undefined || url.hash || !/^[\w.=/-]*$/.test(path) || unknown !== undefined) {
    throw new ConfigError(`${name} is "${value}": ${S3_FORM}`);
  }
  const region = url.searchParams.get("region") || "us-east-1";
  const endpoint = url.searchParams.get("endpoint") || `https://s3.${region}.amazonaws.com`;
  const origin = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (!origin || !/^https?:$/.test(origin.protocol) || origin.href !== `${origin.origin}/`) {
    throw new ConfigError(`${name} has the endpoint "${endpoint}": ${S3_FORM}`);
  }
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey) {
    throw new ConfigError(`${name} needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`);
  }
  const prefix = path === "" ? "" : `${path}/`;
  // RFC 6066 §3: TLS names the host without a final dot.
  const host = origin.origin.replace(/\.(?=(?::\d+)?$)/, "");
  return { bucket, prefix, endpoint: host, region, accessKeyId, secretAccessKey };
}

const isIp = (text: string): boolean =>
  /^\d{1,3}(\.\d{1,3}){3}$/.test(text) || /^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$/.test(text);

function parseDnsServers(value: string): string[] {
  return splitList(value).map((entry) => {
    const withPort = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(entry);
    const ip = isIp(entry) ? entry : (withPort?.[1] ?? withPort?.[2] ?? "");
    if (!isIp(ip) || Number(withPort?.[3] ?? 53) > 65535) {
      throw new ConfigError(`MAILROOM_DNS has "${entry}": give addresses as ip or ip:port, separated by commas`);
    }
    return entry;
  });
}

function parseCidrs(value: string): string[] {
  return splitList(value).map((entry) => {
    const [ip = "", bits, ...rest] = entry.split("/");
    const widest = ip.includes(":") ? 128 : 32;
    if (rest.length > 0 || !isIp(ip) || (bits !== undefined && !(/^\d{1,3}$/.test(bits) && Number(bits) <= widest))) {
      throw new ConfigError(
        `MAILROOM_TRUSTED_PROXIES has "${entry}": give CIDRs, such as 10.0.0.0/8, separated by commas`,
      );
    }
    return entry;
  });
}

const splitList = (value: string): string[] =>
  value
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");

function parseLogLevel(value: string): Config["log"] {
  const levels = ["debug", "info", "warn", "error", "silent"] as const;
  const level = levels.find((known) => known === value);
  if (!level) throw new ConfigError(`MAILROOM_LOG is "${value}": give one of ${levels.join(", ")}`);
  return level;
}

/** Reads the environment. An empty variable counts as not set. */
export function readConfig(env: Environment): Config {
  const http = parseListen("MAILROOM_HTTP", env.MAILROOM_HTTP || "127.0.0.1:8025");
  // Port 0 is known only once the listener is bound.
  const port = (http !== "off" && http.port) || 8025;
  const baseUrl = parseBaseUrl(env.MAILROOM_BASE_URL || `http://localhost:${port}`);
  const hostname = env.MAILROOM_HOSTNAME || new URL(baseUrl).hostname;
  if (
    !/^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$|^\[.+\]$/.test(
      hostname,
    )
  ) {
    throw new ConfigError(`MAILROOM_HOSTNAME is "${hostname}": give a host name, such as mail.example.com`);
  }
  const config = Object.freeze({
    data: env.MAILROOM_DATA || "./data",
    baseUrl,
    http,
    https: parseListen("MAILROOM_HTTPS", env.MAILROOM_HTTPS || "off"),
    mx: parseListen("MAILROOM_MX", env.MAILROOM_MX || "127.0.0.1:2525"),
    submission: parseListen("MAILROOM_SUBMISSION", env.MAILROOM_SUBMISSION || "127.0.0.1:2587"),
    submissions: parseListen("MAILROOM_SUBMISSIONS", env.MAILROOM_SUBMISSIONS || "127.0.0.1:2465"),
    imap: parseListen("MAILROOM_IMAP", env.MAILROOM_IMAP || "off"),
    imaps: parseListen("MAILROOM_IMAPS", env.MAILROOM_IMAPS || "off"),
    tls: parseTls(env),
    hostname,
    dns: parseDnsServers(env.MAILROOM_DNS || ""),
    trustedProxies: parseCidrs(env.MAILROOM_TRUSTED_PROXIES || ""),
    blobs: parseS3("MAILROOM_BLOBS", env),
    replica: parseS3("MAILROOM_REPLICA", env),
    log: parseLogLevel(env.MAILROOM_LOG || "info"),
  });
  checkAcme(config);
  return config;
}

/** The variables that say how a server is reached and what it uses: all that readConfig reads, but for the folder and secrets. */
export const SERVER_VARIABLES = [
  "MAILROOM_BASE_URL",
  "MAILROOM_HOSTNAME",
  "MAILROOM_MX",
  "MAILROOM_SUBMISSION",
  "MAILROOM_SUBMISSIONS",
  "MAILROOM_IMAP",
  "MAILROOM_IMAPS",
  "MAILROOM_HTTP",
  "MAILROOM_HTTPS",
  "MAILROOM_TLS",
  "MAILROOM_ACME_CHALLENGE",
  "MAILROOM_ACME_DIRECTORY",
  "MAILROOM_ACME_EMAIL",
  "MAILROOM_DNS",
  "MAILROOM_TRUSTED_PROXIES",
  "MAILROOM_BLOBS",
  "MAILROOM_REPLICA",
  "MAILROOM_LOG",
] as const;

/** The variables for a child process that reads and writes the same blobs. */
export function blobsEnvironment({ blobs }: Pick<Config, "blobs">): Record<string, string> {
  if (!blobs) return {};
  const { bucket, prefix, endpoint, region } = blobs;
  const { NODE_EXTRA_CA_CERTS } = process.env;
  return {
    MAILROOM_BLOBS: `s3://${bucket}/${prefix}?${new URLSearchParams({ endpoint, region })}`,
    AWS_ACCESS_KEY_ID: blobs.accessKeyId,
    AWS_SECRET_ACCESS_KEY: blobs.secretAccessKey,
    ...(NODE_EXTRA_CA_CERTS !== undefined && { NODE_EXTRA_CA_CERTS }),
  };
}

/** Variables that name a proxy, or the hosts that are reached without one. */
const OF_PROXIES = /^(?:https?|all|no)_proxy$/i;

/**
 * The environment of the process. Removes the variables of proxies from it for good: Bun's fetch would follow them at
 * each request, to this machine, too, and child processes would inherit them (rules: Environment).
 */
export function processEnvironment(): Environment {
  for (const name of Object.keys(process.env)) if (OF_PROXIES.test(name)) delete process.env[name];
  return process.env;
}
