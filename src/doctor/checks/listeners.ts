/** The server's own listeners, asked as a client of this machine asks them. */
import type { Listen } from "../../config.ts";
import type { Check, Finding, World } from "../check.ts";

/** `wantsTls`: it speaks TLS from the first byte. */
const LISTENERS = [
  { id: "http", name: "HTTP", variable: "MAILROOM_HTTP", expect: "connection" },
  { id: "https", name: "HTTPS", variable: "MAILROOM_HTTPS", expect: "certificate" },
  { id: "mx", name: "SMTP for other servers", variable: "MAILROOM_MX", expect: "line" },
  { id: "submission", name: "SMTP for mail apps", variable: "MAILROOM_SUBMISSION", expect: "line" },
  { id: "submissions", name: "SMTP for mail apps, over TLS", variable: "MAILROOM_SUBMISSIONS", expect: "certificate" },
] as const;

/** Where a client on this machine finds it; undefined for one that has no address of its own. */
export function reachedAt(listen: Listen): { host: string; port: number } | undefined {
  if (listen === "off" || listen.port === 0) return undefined;
  const host = listen.host === "0.0.0.0" ? "127.0.0.1" : listen.host === "::" ? "::1" : listen.host;
  return { host, port: listen.port };
}

export const checkListeners: Check = async (world) => {
  if (world.serving) return (await Promise.all(LISTENERS.map((listener) => look(world, listener)))).flat();
  const detail = "no server runs on the data folder";
  return [
    {
      id: "server",
      name: "Server",
      state: "warning",
      detail,
      todo: "Start it: systemctl start mailroom, or mailroom serve.",
    },
  ];
};

async function look({ config, system }: World, listener: (typeof LISTENERS)[number]): Promise<Finding[]> {
  const { id, variable, expect } = listener;
  const at = reachedAt(config[id]);
  if (!at) return [];
  const base = { id: `listener:${id}`, name: listener.name };
  const where = `${at.host}:${at.port}`;
  try {
    const { line = "220" } = await system.greet(at.host, at.port, expect);
    if (line.startsWith("220")) return [{ ...base, state: "ok", detail: `it answers at ${where}` }];
    return [{ ...base, state: "bad", detail: `it says ${line}`, todo: "Look into the server's log." }];
  } catch (error) {
    const detail = `nothing answers at ${where}: ${error instanceof Error ? error.message : error}`;
    const todo = `See that ${variable} is the same for the server as for this command, and look into the server's log: journalctl -u mailroom`;
    return [{ ...base, state: "bad", detail, todo }];
  }
}
