/** The ports of a server that is to be: a standby takes over only if it can have them. */
import { createServer, type Server } from "node:net";
import { AppError } from "../base/errors.ts";
import type { Config, Listen } from "../config.ts";

const MAIL = {
  MAILROOM_MX: "mx",
  MAILROOM_SUBMISSION: "submission",
  MAILROOM_SUBMISSIONS: "submissions",
  MAILROOM_IMAP: "imap",
  MAILROOM_IMAPS: "imaps",
} as const satisfies Record<string, keyof Config>;
const WEB = { MAILROOM_HTTP: "http", MAILROOM_HTTPS: "https" } as const satisfies Record<string, keyof Config>;

/**
 * Binds the ports, and ends each connection at once, until the returned function is called: senders come again. `web`: those of
 * HTTP, too, which a standby that runs has already. @throws AppError conflict that names the listeners; then none is bound
 */
export async function occupyServerPorts(config: Config, { web }: { web: boolean }): Promise<() => Promise<void>> {
  const held: Server[] = [];
  const taken: string[] = [];
  for (const [variable, name] of Object.entries({ ...MAIL, ...(web && WEB) })) {
    const server = await bind(config[name]).catch((error) => {
      taken.push(`${variable} (${error instanceof Error ? error.message : error})`);
    });
    if (server) held.push(server);
  }
  const release = async (): Promise<void> => {
    await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  };
  if (taken.length === 0) return release;
  await release();
  throw new AppError(
    "conflict",
    `this machine cannot listen at ${taken.join(", ")}: free what is taken, and promote again; the lease was left alone`,
  );
}

/** Undefined for a listener that is off, or takes any port. */
function bind(listen: Listen): Promise<Server> | Promise<undefined> {
  if (listen === "off" || listen.port === 0) return Promise.resolve(undefined);
  return new Promise<Server>((resolve, reject) => {
    const server = createServer((socket) => socket.on("error", () => {}).destroy());
    server.once("error", reject);
    server.listen(listen.port, listen.host, () => resolve(server));
  });
}
