/**
 * A fresh Debian machine in a folder, for install.sh, with processes and a network of its own and a stand-in for systemd, or
 * booted by the real one. Its files lie over a root that debootstrap made (MAILROOM_TEST_ROOT), which stays unchanged.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";

const PROJECT = join(import.meta.dir, "../..");
const ROOT = process.env.MAILROOM_TEST_ROOT;
const CTRL_C = "\x03";

const isRoot = (folder: string | undefined): folder is string =>
  folder !== undefined && existsSync(join(folder, "bin/bash"));

/** The reason why there is no machine here, for the titles of skipped tests. */
export const machineMissing =
  process.getuid?.() !== 0
    ? "needs root"
    : isRoot(ROOT)
      ? ["unshare", "nsenter", "ip"].find((program) => Bun.which(program) === null)
      : "needs MAILROOM_TEST_ROOT, made by: debootstrap --variant=minbase --include=systemd,systemd-sysv,curl,wget bookworm FOLDER";

/** Reason why a machine that systemd boots is missing; undefined where it is there. */
export const systemdMissing =
  machineMissing ??
  (Bun.which("systemd-nspawn") === null
    ? "needs systemd-nspawn"
    : existsSync(join(ROOT ?? "", "lib/systemd/systemd"))
      ? undefined
      : "needs systemd in MAILROOM_TEST_ROOT");

/** Roots of other systems, by their names: MAILROOM_TEST_OTHER_ROOTS, folders with colons between them. */
export const otherRoots: readonly { name: string; root: string }[] = (process.env.MAILROOM_TEST_OTHER_ROOTS ?? "")
  .split(":")
  .filter(isRoot)
  .map((root) => {
    const [, name = root] = /^PRETTY_NAME="(.*)"$/m.exec(readFileSync(join(root, "usr/lib/os-release"), "utf8")) ?? [];
    return { name, root };
  });

export interface Ran {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface Machine {
  /** The folder that shows its files outside. */
  readonly root: string;
  /** Runs a program as root, to its end. */
  run(command: readonly string[], stdin?: string): Promise<Ran>;
  /**
   * Runs a program at a terminal, and types an answer to each question. Returns the output. Ctrl-C is typed until it has an
   * effect, since a shell that does not read yet gets it only with the next line.
   */
  converse(
    command: readonly string[],
    answers: readonly (readonly [asked: string, typed: string])[],
  ): Promise<{ exitCode: number; shown: string }>;
  /** Runs a script in bash. @throws Error with its output when it fails */
  bash(script: string): Promise<string>;
  /** Starts a program that stays. */
  start(command: readonly string[]): Bun.Subprocess;
  read(path: string): string;
  has(path: string): boolean;
  write(path: string, text: string, mode?: number): void;
  /** Ends all its processes; its files are gone with it. */
  burn(): Promise<void>;
}

const running = new Set<Bun.Subprocess>();
/**
 * Process ids, as seen from outside, of the machines' first processes. When one ends, so do all processes of its machine, which
 * outlive the program that booted it.
 */
const firstProcesses: number[] = [];
atEndOfFile(async () => {
  for (const pid of firstProcesses.splice(0)) if (existsSync(`/proc/${pid}`)) process.kill(pid, "SIGKILL");
  for (const child of running) child.kill("SIGKILL");
  await Promise.all([...running].map((child) => child.exited));
  running.clear();
});

/** Lays the machine's files over the root. */
const OVERLAY = `
set -e
mount --make-rprivate /
mount -t tmpfs none "$PLACE/over"
mkdir "$PLACE/over/changes" "$PLACE/over/work"
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$PLACE/over/changes,workdir=$PLACE/over/work" "$PLACE/root"
mkdir -p "$PLACE/root/media/release"
`;

/** Boots in namespaces of its own, which end with the process, as do their mounts and processes. */
const BOOT = `${OVERLAY}
mount -t proc proc "$PLACE/root/proc"
mount --rbind /dev "$PLACE/root/dev"
mount -t tmpfs none "$PLACE/root/run"
mkdir "$PLACE/root/run/stand-in"
mount --bind "$PLACE/release" "$PLACE/root/media/release"
ip link set lo up
exec chroot "$PLACE/root" sleep infinity
`;

/** In the network of whoever boots it. */
const BOOT_SYSTEMD = `${OVERLAY}
exec systemd-nspawn --quiet --directory="$PLACE/root" --bind="$PLACE/release:/media/release" --register=no --keep-unit \\
  --machine="mailroom-$$" --boot
`;

export interface Boot {
  /** The root of the machine. */
  from?: string;
  /** Booted by the real one, in the network of this process. */
  systemd?: boolean;
}

/** Boots a machine. `executable`: Mailroom's, which stands in /media/release beside install.sh, as in a release. */
export async function bootMachine(executable: string, { from = ROOT, systemd = false }: Boot = {}): Promise<Machine> {
  const place = temporaryFolder();
  const release = join(place, "release");
  for (const folder of ["over", "root", "release/packaging"]) mkdirSync(join(place, folder), { recursive: true });
  for (const file of ["install.sh", "packaging/mailroom", "packaging/mailroom.service"]) {
    copyFileSync(join(PROJECT, file), join(release, file));
  }
  copyFileSync(executable, join(release, "mailroom"));
  const own = systemd ? [] : ["--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"];
  const init = Bun.spawn(["unshare", "--mount", ...own, "bash", "-c", systemd ? BOOT_SYSTEMD : BOOT], {
    env: { PATH: process.env.PATH ?? "", PLACE: place, ROOT: from ?? "" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  running.add(init);
  const pid = await firstProcess(init);
  firstProcesses.push(Number(pid));

  // Ctrl-C at its terminal is for the command. The process that waits for the command must not end before it.
  const inside = (command: readonly string[]): string[] => [
    "env",
    "--ignore-signal=INT",
    "nsenter",
    ...["--target", pid, "--mount", "--net", "--pid", "--uts", "--ipc", "--root", "--wd", "--"],
    "env",
    "-i",
    "--default-signal=INT",
    "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ...command,
  ];
  const root = `/proc/${pid}/root`;
  const machine: Machine = {
    root,
    async run(command, stdin = "") {
      const child = Bun.spawn(inside(command), { stdio: [new Blob([stdin]), "pipe", "pipe"] });
      const [stdout, stderr, exitCode] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
      ]);
      return { exitCode, stdout, stderr };
    },
    async converse(command, answers) {
      let shown = "";
      let read = 0;
      const left = [...answers];
      const decoder = new TextDecoder();
      const closed = Promise.withResolvers<void>();
      let again: Timer | undefined;
      const child = Bun.spawn(inside(command), {
        terminal: {
          data(terminal, bytes) {
            shown += decoder.decode(bytes, { stream: true });
            for (let next = left[0]; next && shown.includes(next[0], read); next = left[0]) {
              read = shown.indexOf(next[0], read) + next[0].length;
              left.shift();
              terminal.write(next[1]);
              if (next[1] === CTRL_C) again = setInterval(() => terminal.write(CTRL_C), 1_000);
            }
          },
          exit: () => closed.resolve(),
        },
      });
      running.add(child);
      // The last output may arrive after the end of the process.
      const [exitCode] = await Promise.all([child.exited, closed.promise]);
      clearInterval(again);
      child.terminal?.close();
      return { exitCode, shown: shown.replaceAll("\r\n", "\n") };
    },
    async bash(script) {
      const { exitCode, stdout, stderr } = await machine.run(["bash", "-euc", script]);
      if (exitCode !== 0) throw new Error(`${script}: exit ${exitCode}: ${stderr}`);
      return stdout;
    },
    start(command) {
      const child = Bun.spawn(inside(command), { stdio: ["ignore", "pipe", "inherit"] });
      running.add(child);
      return child;
    },
    read: (path) => readFileSync(join(root, path), "utf8"),
    has: (path) => existsSync(join(root, path)),
    write(path, text, mode = 0o644) {
      writeFileSync(join(root, path), text);
      chmodSync(join(root, path), mode);
    },
    async burn() {
      firstProcesses.splice(firstProcesses.indexOf(Number(pid)), 1);
      process.kill(Number(pid), "SIGKILL");
      await init.exited;
      running.delete(init);
    },
  };
  if (systemd)
    await machine.bash("until systemctl is-system-running | grep -qE 'running|degraded'; do sleep 0.1; done");
  else copyFileSync(join(import.meta.dir, "systemctl"), join(root, "usr/bin/systemctl"));
  return machine;
}

/** Id, outside, of the process that is the first one inside, once it has all files of the machine and nothing else. */
async function firstProcess(boot: Bun.Subprocess): Promise<string> {
  for (;;) {
    if (boot.exitCode !== null) throw new Error("the machine did not boot");
    const children = readProc(`${boot.pid}/task/${boot.pid}/children`).trim().split(" ");
    const first = children.find((pid) => pid !== "" && /^NSpid:.*\t1$/m.test(readProc(`${pid}/status`)));
    if (first !== undefined && existsSync(`/proc/${first}/root/media/release/mailroom`)) return first;
    await Bun.sleep(10);
  }
}

/** Reads a file of /proc; nothing of a process that has ended. */
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, "utf8");
  } catch {
    return "";
  }
}
