/**
 * A fresh Debian machine in a folder, with processes and a network of its own and a stand-in for systemd: what install.sh
 * is run on. Its files lie over a root that debootstrap made (MAILROOM_TEST_ROOT), which stays as it is.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "./end.ts";
import { temporaryFolder } from "./folder.ts";

const PROJECT = join(import.meta.dir, "../..");
const ROOT = process.env.MAILROOM_TEST_ROOT;
const CTRL_C = "\x03";

const isRoot = (folder: string | undefined): folder is string =>
  folder !== undefined && existsSync(join(folder, "bin/bash"));

/** Why it cannot be had here, for the name of what is skipped. */
export const machineMissing =
  process.getuid?.() !== 0
    ? "needs root"
    : isRoot(ROOT)
      ? ["unshare", "nsenter", "ip"].find((program) => Bun.which(program) === null)
      : "needs MAILROOM_TEST_ROOT, made by: debootstrap --variant=minbase --include=systemd,systemd-sysv,curl,wget bookworm FOLDER";

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
  /** Where its files are seen from outside. */
  readonly root: string;
  /** What was changed of the root it began with. */
  readonly changes: string;
  /** Runs a program on it, as root, to its end. */
  run(command: readonly string[], stdin?: string): Promise<Ran>;
  /**
   * The same at a terminal, where somebody types each answer when they are asked; what was shown to them. Ctrl-C is typed
   * until it is heard: a shell that is about to read, but does not yet, hears it only when the next line comes.
   */
  converse(
    command: readonly string[],
    answers: readonly (readonly [asked: string, typed: string])[],
  ): Promise<{ exitCode: number; shown: string }>;
  /** The same in bash. @throws Error with what it said when it fails */
  bash(script: string): Promise<string>;
  /** Starts a program that stays. */
  start(command: readonly string[]): Bun.Subprocess;
  read(path: string): string;
  has(path: string): boolean;
  write(path: string, text: string, mode?: number): void;
}

const running = new Set<Bun.Subprocess>();
atEndOfFile(async () => {
  for (const child of running) child.kill("SIGKILL");
  await Promise.all([...running].map((child) => child.exited));
  running.clear();
});

/** In namespaces of its own, which end with it, and with them every mount and process. */
const BOOT = `
set -e
mount --make-rprivate /
mount -t tmpfs none "$PLACE/over"
mkdir "$PLACE/over/changes" "$PLACE/over/work"
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$PLACE/over/changes,workdir=$PLACE/over/work" "$PLACE/root"
mount -t proc proc "$PLACE/root/proc"
mount --rbind /dev "$PLACE/root/dev"
mount -t tmpfs none "$PLACE/root/run"
mkdir "$PLACE/root/run/stand-in"
mkdir -p "$PLACE/root/media/release"
mount --bind "$PLACE/release" "$PLACE/root/media/release"
ip link set lo up
echo up
exec sleep infinity
`;

/**
 * Boots one. `executable`: Mailroom's, which lies in /media/release beside install.sh as in a release. `from`: the root it
 * begins with.
 */
export async function bootMachine(executable: string, from = ROOT): Promise<Machine> {
  const place = temporaryFolder();
  const release = join(place, "release");
  for (const folder of ["over", "root", "release/packaging"]) mkdirSync(join(place, folder), { recursive: true });
  for (const file of ["install.sh", "packaging/mailroom", "packaging/mailroom.service"]) {
    copyFileSync(join(PROJECT, file), join(release, file));
  }
  copyFileSync(executable, join(release, "mailroom"));
  const init = Bun.spawn(
    ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "bash", "-c", BOOT],
    { env: { PATH: process.env.PATH ?? "", PLACE: place, ROOT: from ?? "" }, stdio: ["ignore", "pipe", "inherit"] },
  );
  running.add(init);
  const said = await init.stdout.getReader().read();
  if (new TextDecoder().decode(said.value) !== "up\n") throw new Error("the machine did not boot");
  const pid = readFileSync(`/proc/${init.pid}/task/${init.pid}/children`, "utf8").trim();

  const root = `/proc/${pid}/root${place}/root`;
  // Ctrl-C at its terminal is for the command: who waits for that must not end before it.
  const inside = (command: readonly string[]): string[] => [
    "env",
    "--ignore-signal=INT",
    "nsenter",
    "--target",
    pid,
    "--mount",
    "--net",
    "--pid",
    "--uts",
    "--ipc",
    "--",
    "chroot",
    join(place, "root"),
    "env",
    "-i",
    "--default-signal=INT",
    "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ...command,
  ];
  const machine: Machine = {
    root,
    changes: `/proc/${pid}/root${place}/over/changes`,
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
      // What it said last may be read after it has ended.
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
  };
  copyFileSync(join(import.meta.dir, "systemctl"), join(root, "usr/bin/systemctl"));
  return machine;
}
