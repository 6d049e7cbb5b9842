/** install.sh on a machine (machine.ts): helpers for it, and for the Mailroom that it installs. */
import { join } from "node:path";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { buildExecutable, builtExecutable } from "../harness/servers/executable.ts";
import { type Boot, bootMachine, type Machine, type Ran } from "./machine.ts";

export const INSTALL = ["bash", "/media/release/install.sh"];
export const FIRST = ["--domain", "example.test", "--email", "ada@example.test", "--name", "Ada Example"];
/** Most tests call the API, which is plain HTTP only behind a proxy. */
export const OFFLINE = ["--tls", "self-signed", "--behind-proxy"];

/** A version that runs like the installed one, and one that writes a newer schema and then fails or hangs. */
export const NEXT = '#!/bin/bash\nif [ "$1" = version ]; then echo 0.2.0; else exec /media/release/mailroom "$@"; fi\n';
const broken = (end: string): string => `#!/bin/bash
if [ "$1" = version ]; then echo 0.3.0; exit; fi
echo late >"$MAILROOM_DATA/late"
printf '\\0\\0\\0\\143' | dd of="$MAILROOM_DATA/mailroom.db" bs=1 seek=60 conv=notrunc status=none
${end}
`;

/** Its folder is removed when the test file ends. */
let executable: Promise<string> | undefined;
atEndOfFile(() => {
  executable = undefined;
});

export async function boot(options?: Boot): Promise<Machine> {
  executable ??= builtExecutable
    ? Promise.resolve(builtExecutable)
    : buildExecutable(join(temporaryFolder(), "mailroom"));
  const machine = await bootMachine(await executable, options);
  machine.write("media/release/next", NEXT, 0o755);
  machine.write("media/release/broken", broken("exit 1"), 0o755);
  machine.write("media/release/hanging", broken("exec sleep infinity"), 0o755);
  return machine;
}

export const install = (machine: Machine, ...options: string[]): Promise<Ran> =>
  machine.run([...INSTALL, "--yes", ...options]);

/** Runs it to its end. @throws Error with its output when it fails */
export async function installed(machine: Machine, ...options: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await install(machine, ...options);
  if (exitCode !== 0) throw new Error(`install.sh ended with ${exitCode}: ${stdout}${stderr}`);
  return stdout;
}

/** Upgrades to one of the versions in /media/release. */
export const upgrade = (machine: Machine, version: string): Promise<Ran> =>
  install(machine, "--executable", `/media/release/${version}`, "--ready-seconds", version === "hanging" ? "2" : "100");

export async function freshlyInstalled(): Promise<{ machine: Machine; key: string }> {
  const machine = await boot();
  return { machine, key: keyOf(await installed(machine, ...FIRST, ...OFFLINE)) };
}

export const keyOf = (said: string): string => /^apiKey: (mr_\w+)$/m.exec(said)?.[1] ?? "";
export const versionOf = async (machine: Machine): Promise<string> => (await machine.bash("mailroom version")).trim();
export const asked = (machine: Machine): string[] => machine.read("run/stand-in/calls").trim().split("\n");
export const interruptAt = (machine: Machine, line: string): void => machine.write("run/stand-in/interrupt", line);
/** Lists the files on the machine's disk with their sizes and times, so that a change shows. */
export const everything = (machine: Machine): Promise<string> =>
  machine.bash(
    `find / -xdev \\( -path /tmp -prune \\) -o -type d -printf '%p %m\\n' -o -printf '%p %s %m %T@\\n' | sort`,
  );

/** Connects to a server that may still be starting. */
export const connect = (port: number): string =>
  `for _ in {1..600}; do { exec 3<>/dev/tcp/127.0.0.1/${port}; } 2>/dev/null && break; sleep 0.05; done`;

/** Verifies the domain as the operator does, and delivers mail over SMTP. Returns the reply to the last command. */
export const mailIn = (machine: Machine, subject: string): Promise<string> =>
  machine.bash(`
    mailroom domain verify example.test --skip-dns >/dev/null 2>&1 || true
    ${connect(25)}
    reply() { while IFS= read -r line <&3; do [[ $line == ???-* ]] || break; done; }
    reply
    for command in "EHLO remote.example" "MAIL FROM:<bob@remote.example>" "RCPT TO:<ada@example.test>" DATA \
      $'From: bob@remote.example\\r\\nSubject: ${subject}\\r\\n\\r\\nHello\\r\\n.'; do
      printf '%s\\r\\n' "$command" >&3
      reply
    done
    echo "$line"`);

/** Lists the subjects of the mail over the API, newest first. */
export async function subjects(machine: Machine, key: string): Promise<string[]> {
  const answer = await machine.bash(`
    ${connect(8025)}
    printf 'GET /api/v1/threads HTTP/1.0\\r\\nHost: localhost\\r\\nAuthorization: Bearer ${key}\\r\\n\\r\\n' >&3
    cat <&3`);
  const { threads } = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n"))) as { threads: { subject: string }[] };
  return threads.map(({ subject }) => subject).sort();
}
