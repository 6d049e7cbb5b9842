/**
 * Data folders of demos. Every demo has the same key and password, known to everybody, so a demo is reachable from its
 * own machine alone: requireLoopbackListeners refuses other listeners, and http/http-server.ts requests to other host names.
 */
import { listDomains } from "../admin/domains.ts";
import { listWorkspaces, type Workspace } from "../admin/workspace-admin.ts";
import { ConfigError } from "../base/errors.ts";
import type { Config, Environment, Listen } from "../config.ts";
import { isLoopbackHost } from "../net/ip.ts";
import type { Core } from "../store/core.ts";

export const NAME = "Demo";
/** No real mail can have it (RFC 6761 §6.2), so a workspace with this name and domain is a demo's. */
export const DOMAIN = "example.test";

/** The demo's workspace; undefined when the data folder is no demo's. */
export function findDemo(core: Core): Workspace | undefined {
  const known = listWorkspaces(core).find(({ name }) => name === NAME);
  return known && listDomains(core, known.id).some(({ name }) => name === DOMAIN) ? known : undefined;
}

type Listener = { [Name in keyof Config]: Config[Name] extends Listen ? Name : never }[keyof Config];

const VARIABLES: Record<Listener, string> = {
  http: "MAILROOM_HTTP",
  https: "MAILROOM_HTTPS",
  mx: "MAILROOM_MX",
  submission: "MAILROOM_SUBMISSION",
  submissions: "MAILROOM_SUBMISSIONS",
  imap: "MAILROOM_IMAP",
  imaps: "MAILROOM_IMAPS",
};

/** Mail apps read a demo, unless its environment says otherwise. */
export const demoEnvironment = (env: Environment): Environment => ({
  ...env,
  MAILROOM_IMAP: env.MAILROOM_IMAP || "127.0.0.1:2143",
  MAILROOM_IMAPS: env.MAILROOM_IMAPS || "127.0.0.1:2993",
});

/** Refuses listeners of a demo that other machines may reach. @throws ConfigError that names the variable */
export function requireLoopbackListeners(config: Config): void {
  for (const [name, variable] of Object.entries(VARIABLES) as [Listener, string][]) {
    const listen = config[name];
    if (listen === "off" || isLoopbackHost(listen.host)) continue;
    throw new ConfigError(
      `${variable} is on ${listen.host}, but everybody knows a demo's key and password: give a loopback address, such as 127.0.0.1, or another data folder`,
    );
  }
}
