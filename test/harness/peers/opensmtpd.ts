/**
 * Debian's OpenSMTPD as a child process, with a configuration of its own. Its folders are built in, so it sees folders of its
 * own in their place.
 */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { run } from "../programs.ts";
import { type Daemon, startDaemon } from "./daemon.ts";

const PATH = `${process.env.PATH}:/usr/sbin`;
const [smtpd, smtpctl] = ["smtpd", "smtpctl"].map((program) => Bun.which(program, { PATH }));
const isRoot = process.getuid?.() === 0;

/** The reason why it cannot run, or undefined. It needs its libraries and, by the name built in, the user opensmtpd. */
export async function whyNoOpenSmtpd(): Promise<string | undefined> {
  if (!smtpd || !smtpctl) return "opensmtpd is not installed";
  if (!isRoot) return "opensmtpd starts as root only";
  const { output } = await run([smtpd, "-h"]);
  if (!output.includes("OpenSMTPD")) return `opensmtpd does not run: ${output.trim().split("\n")[0]}`;
  for (const user of ["opensmtpd", "opensmtpq"]) {
    if ((await run(["id", user])).exitCode !== 0) return `there is no user ${user}`;
  }
  return undefined;
}

export interface OpenSmtpd extends Daemon {
  port: number;
  /** Delivers what waits. */
  retry(): Promise<void>;
}

/** Starts OpenSMTPD on a free port, until the test file ends. `settings`: its configuration, given the port. */
export async function startOpenSmtpd(settings: (port: number) => string): Promise<OpenSmtpd> {
  const folder = temporaryFolder();
  const port = await takePort();
  const config = join(folder, "smtpd.conf");
  writeFileSync(config, settings(port));
  chmodSync(config, 0o600);
  const script = `
for folder in /var/spool /var/lib /run; do mount -t tmpfs none $folder || exit; done
mkdir -p /var/lib/opensmtpd/empty /var/spool/smtpd && chmod 711 /var/spool/smtpd
# It refuses to run without the group, which a package gives it.
install -g opensmtpq -m 2755 ${smtpctl} /run/smtpctl
exec ${smtpd} -F -f ${config}
`;
  const daemon = await startDaemon(["unshare", "--mount", "sh", "-c", script], port);
  return {
    port,
    retry: async () => {
      const { exitCode, output } = await run([
        "nsenter",
        `--mount=/proc/${daemon.pid}/ns/mnt`,
        "/run/smtpctl",
        "schedule",
        "all",
      ]);
      if (exitCode !== 0) throw new Error(`smtpctl ended with ${exitCode}: ${output}`);
    },
    ...daemon,
  };
}
