/** Debian's Exim as a child process, with a configuration and a queue in a folder of its own. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { run } from "../programs.ts";
import { type Daemon, startDaemon } from "./daemon.ts";

const exim = Bun.which("exim4", { PATH: `${process.env.PATH}:/usr/sbin` });
const isRoot = process.getuid?.() === 0;

/** The reason why it cannot run, or undefined. It needs its libraries and, by the name built in, the user Debian-exim. */
export async function whyNoExim(): Promise<string | undefined> {
  if (exim === null) return "exim4 is not installed";
  if (!isRoot) return "exim4 starts as root only";
  const { exitCode, output } = await run([exim, "-C", "/dev/null", "-bV"]);
  return exitCode === 0 ? undefined : `exim4 does not run: ${output.trim().split("\n")[0]}`;
}

export interface Exim extends Daemon {
  port: number;
  /** Its main log. */
  log(): string;
  /** Delivers what waits. */
  retry(): Promise<void>;
}

/** Where it sends all mail. */
export interface Relay {
  port: number;
  /** Signs in, over TLS. */
  auth?: { user: string; password: string };
}

/** Starts Exim on a free port, until the test file ends. It takes any mail, and offers DSN and CHUNKING. */
export function startExim({ port: next, auth }: Relay): Promise<Exim> {
  return startEximWith(`
tls_advertise_hosts =
dsn_advertise_hosts = *
chunking_advertise_hosts = *
acl_smtp_rcpt = accept
acl_smtp_data = accept
begin routers
next:
  driver = manualroute
  transport = next
  route_list = * 127.0.0.1
  self = send
begin transports
next:
  driver = smtp
  port = ${next}
  hosts_try_chunking = *
  ${auth ? "hosts_require_auth = *\n  hosts_require_tls = *" : "hosts_avoid_tls = *"}
begin authenticators
${auth ? `plain:\n  driver = plaintext\n  public_name = PLAIN\n  client_send = ^${auth.user}^${auth.password}` : ""}
`);
}

/** Starts Exim on a free port, until the test file ends. `settings`: the configuration beside what is about files. */
export async function startEximWith(settings: string): Promise<Exim> {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const spool = join(folder, "spool");
  mkdirSync(spool);
  await Bun.$`chown Debian-exim ${spool}`;
  const port = await takePort();
  const config = join(folder, "exim.conf");
  writeFileSync(
    config,
    `
primary_hostname = exim.test
exim_path = ${exim}
spool_directory = ${spool}
log_file_path = ${spool}/%slog
pid_file_path = ${spool}/exim.pid
exim_user = Debian-exim
exim_group = nogroup
keep_environment =
deliver_drop_privilege = true
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
${settings}`,
  );
  const daemon = await startDaemon([exim as string, "-C", config, "-bdf"], port);
  return {
    port,
    log: () => readFileSync(join(spool, "mainlog"), "utf8"),
    retry: async () => void (await run([exim as string, "-C", config, "-qff"])),
    ...daemon,
  };
}
