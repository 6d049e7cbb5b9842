/** Debian's Postfix as a child process, with a configuration and a queue in a folder of its own. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { run } from "../programs.ts";
import { type Daemon, startDaemon } from "./daemon.ts";

const PATH = `${process.env.PATH}:/usr/sbin:/usr/lib/postfix/sbin`;
const [postfix, master] = ["postfix", "master"].map((program) => Bun.which(program, { PATH }));

/** The reason why it cannot run, or undefined. */
export const noPostfix =
  postfix === null ? "postfix is not installed" : process.getuid?.() === 0 ? undefined : "postfix starts as root only";

export interface Postfix extends Daemon {
  port: number;
  /** Its log. */
  log(): string;
  /** Delivers what waits. */
  retry(): Promise<void>;
}

/** Starts Postfix on a free port, until the test file ends. `settings` are lines of main.cf beside those about files. */
export async function startPostfix(settings: string): Promise<Postfix> {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const [queue, data, config] = ["queue", "data", "config"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [queue, data, config]) mkdirSync(path);
  await Bun.$`chown postfix ${data}`;
  const port = await takePort();
  writeFileSync(
    join(config, "main.cf"),
    `
compatibility_level = 3.6
queue_directory = ${queue}
data_directory = ${data}
maillog_file = ${folder}/maillog
maillog_file_prefixes = ${folder}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mydestination =
alias_maps =
${settings}`,
  );
  writeFileSync(join(config, "master.cf"), servicesOn(port));
  // Creates the folders of the queue.
  const check = await run([postfix as string, "-c", config, "check"]);
  if (check.exitCode !== 0) throw new Error(`postfix check ended with ${check.exitCode}: ${check.output}`);
  return {
    port,
    log: () => readFileSync(join(folder, "maillog"), "utf8"),
    retry: async () => void (await run([postfix as string, "-c", config, "flush"])),
    ...(await startDaemon([master as string, "-c", config, "-d"], port)),
  };
}

const servicesOn = (listen: number): string =>
  [
    `127.0.0.1:${listen} inet n - n - - smtpd`,
    "cleanup unix n - n - 0 cleanup",
    "qmgr unix n - n 300 1 qmgr",
    "tlsmgr unix - - n 1000? 1 tlsmgr",
    "rewrite unix - - n - - trivial-rewrite",
    "bounce unix - - n - 0 bounce",
    "defer unix - - n - 0 bounce",
    "trace unix - - n - 0 bounce",
    "verify unix - - n - 1 verify",
    "proxymap unix - - n - - proxymap",
    "smtp unix - - n - - smtp",
    "lmtp unix - - n - - lmtp",
    "error unix - - n - - error",
    "retry unix - - n - - error",
    "anvil unix - - n - 1 anvil",
    "scache unix - - n - 1 scache",
    "postlog unix-dgram n - n - 1 postlogd",
    "",
  ].join("\n");
