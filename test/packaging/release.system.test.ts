/** `npm run release`: the same bytes for the same commit, in whatever folder, and all that an archive needs in it. */
import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { arch } from "node:os";
import { dirname, join } from "node:path";
import { version } from "../../package.json" with { type: "json" };
import { shippedPackages } from "../../packaging/lock.ts";
import { checkIntegrity } from "../../packaging/runtimes.ts";
import { outputOf } from "../../packaging/tools.ts";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";

const ROOT = join(import.meta.dir, "../..");
const TARGET = arch() === "arm64" ? "linux-arm64" : "linux-x64";
/** Pattern of what `mailroom version` prints. */
const BUILD = new RegExp(`^${RegExp.escape(version)}\\+[0-9a-f]{12}$`);
const NAME = `mailroom-${version}-${TARGET}`;

/** The working tree as somebody has it who cloned it when it is committed, in a folder of its own. */
async function clone(): Promise<string> {
  const folder = join(temporaryFolder(), "mailroom");
  const files = await outputOf(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z");
  for (const file of files.split("\0").filter((name) => name !== "")) {
    if (!(await Bun.file(join(ROOT, file)).exists())) continue;
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  // As old as it is, and not newer than what is installed: nothing is installed again.
  const lock = "package-lock.json";
  utimesSync(join(folder, lock), new Date(0), statSync(join(ROOT, lock)).mtime);
  const author = ["-c", "user.name=A", "-c", "user.email=a@example.test"];
  await outputOf(folder, "git", "init", "--quiet");
  // As a link it is no folder, which is what .gitignore has.
  appendFileSync(join(folder, ".git/info/exclude"), "node_modules\n");
  await outputOf(folder, "git", "add", "--all");
  const at = "2026-01-02T03:04:05Z";
  await outputOf(
    folder,
    "env",
    `GIT_COMMITTER_DATE=${at}`,
    "git",
    ...author,
    "commit",
    "--quiet",
    `--date=${at}`,
    "-m",
    "all",
  );
  return folder;
}

/** The packages that are installed in `there`, without installing them. */
async function withPackages(folder: string, how: "linked" | "copied", there = ROOT): Promise<string> {
  const [from, to] = [join(there, "node_modules"), join(folder, "node_modules")];
  if (how === "linked") symlinkSync(from, to);
  else
    await outputOf(
      ROOT,
      "sh",
      "-c",
      `cp -al "${from}" "${to}" 2>/dev/null || { rm -rf "${to}"; cp -a "${from}" "${to}"; }`,
    );
  return folder;
}

const release = (folder: string, ...args: string[]): Promise<string> =>
  outputOf(folder, process.execPath, "packaging/release.ts", ...args);

/** ELF: e_machine, and what the loader is called. */
const KINDS: [target: string, machine: number, loader: string][] = [
  ["linux-x64", 62, "/lib64/ld-linux-x86-64.so.2"],
  ["linux-x64-musl", 62, "/lib/ld-musl-x86_64.so.1"],
  ["linux-arm64", 183, "/lib/ld-linux-aarch64.so.1"],
  ["linux-arm64-musl", 183, "/lib/ld-musl-aarch64.so.1"],
];
/** Names from Debian's qemu-user-static and libc6-arm64-cross. */
const EMULATOR = "qemu-aarch64-static";
const ARM64_ROOT = "/usr/aarch64-linux-gnu";

/** Roots with musl and GCC's libraries for it, as .ci/musl-roots makes them. */
const MUSL = process.env.MAILROOM_TEST_MUSL ?? "";
/** Takes a root with /mailroom, and what to tell that; the paths of its loader and libraries are those of its own. */
const IN_ROOT = [
  "unshare",
  "--mount",
  "sh",
  "-c",
  'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /mailroom "$@"',
];
const muslMissing =
  arch() !== "x64"
    ? "needs x64"
    : process.getuid?.() !== 0
      ? "needs root"
      : MUSL === ""
        ? "needs MAILROOM_TEST_MUSL, made by .ci/musl-roots FOLDER"
        : undefined;

const missing =
  process.env.MAILROOM_TEST_RELEASE === undefined
    ? " (skipped: with MAILROOM_TEST_RELEASE=1 it takes a minute, and runtimes from npm)"
    : existsSync(join(ROOT, ".git"))
      ? ""
      : " (skipped: a release is made of a commit, and no .git is here)";

describe.skipIf(missing !== "")(`a release${missing}`, () => {
  let out = "";

  test("has the same bytes for one commit, on any machine and in any folder", async () => {
    const one = await withPackages(await clone(), "copied");
    const other = await withPackages(await clone(), "copied", one);
    const [all, alone] = await Promise.all([release(one), release(other, "--out", join(other, "elsewhere"), TARGET)]);
    expect(all.match(/^[0-9a-f]{64} {2}\S+$/gm)).toHaveLength(5);
    for (const sum of alone.split("\n")) expect(all.split("\n")).toContain(sum);
    out = join(one, "dist/release");
    await outputOf(out, "sha256sum", "--check", "--strict", "SHA256SUMS");
  }, 600_000);

  test("has everything in its archives that an installation needs", async () => {
    const documents = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
      .map((path) => `docs/${path}`)
      .sort();
    expect(
      (await outputOf(out, "tar", "--list", "--verbose", "--gzip", "--file", `${NAME}.tar.gz`)).split("\n"),
    ).toEqual(
      [
        ["drwxr-xr-x", ""],
        ["-rw-r--r--", "CHANGELOG.md"],
        ["-rw-r--r--", "CONTRIBUTING.md"],
        ["-rw-r--r--", "LICENSE"],
        ["-rw-r--r--", "README.md"],
        ["-rw-r--r--", "SECURITY.md"],
        ["-rw-r--r--", "THIRD-PARTY-LICENSES"],
        ["drwxr-xr-x", "docs/"],
        ...documents.map((path) => (path.includes(".") ? ["-rw-r--r--", path] : ["drwxr-xr-x", `${path}/`])),
        ["-rwxr-xr-x", "install.sh"],
        ["-rwxr-xr-x", "mailroom"],
        ["drwxr-xr-x", "packaging/"],
        ["-rw-r--r--", "packaging/Dockerfile"],
        ["-rw-r--r--", "packaging/compose.yaml"],
        ["-rwxr-xr-x", "packaging/mailroom"],
        ["-rw-r--r--", "packaging/mailroom.service"],
        ["drwxr-xr-x", "packaging/monitoring/"],
        ["-rw-r--r--", "packaging/monitoring/fail2ban-filter.conf"],
        ["-rw-r--r--", "packaging/monitoring/fail2ban-jail.conf"],
        ["-rw-r--r--", "packaging/monitoring/prometheus-rules.yml"],
        ["-rwxr-xr-x", "packaging/nsupdate-hook"],
        ["-rw-r--r--", "sbom.cdx.json"],
      ].map(([mode, file]) =>
        expect.stringMatching(new RegExp(`^${mode} root/root +\\d+ 2026-01-02 03:04 ${NAME}/${file}$`)),
      ),
    );
    await outputOf(out, "tar", "--extract", "--gzip", "--file", `${NAME}.tar.gz`);
    expect(await outputOf(out, join(out, NAME, "mailroom"), "version")).toMatch(BUILD);

    // Every package that is not for development alone is named, with its licence.
    const bom = JSON.parse(readFileSync(join(out, `mailroom-${version}.cdx.json`), "utf8"));
    expect(bom).toMatchObject({ bomFormat: "CycloneDX", metadata: { component: { name: "mailroom", version } } });
    const parts = (bom.components as { name: string; version: string }[]).map((part) => `${part.name} ${part.version}`);
    const licences = readFileSync(join(out, NAME, "THIRD-PARTY-LICENSES"), "utf8");
    const shipped = shippedPackages(ROOT);
    expect(shipped.length).toBeGreaterThan(100);
    expect(parts.sort()).toEqual([...new Set(shipped.map(({ name, version }) => `${name} ${version}`))].sort());
    for (const { name, version } of shipped)
      expect(licences).toMatch(new RegExp(`^${RegExp.escape(`${name} ${version}`)}( \\(|$)`, "m"));
    expect(parts.filter((part) => /^(knip|fast-check|playwright-core) /.test(part))).toEqual([]);
    expect(licences).toContain("Permission is hereby granted");
  });

  test("is made for every kind of machine", async () => {
    for (const [target, machine, loader] of KINDS) {
      const name = `mailroom-${version}-${target}`;
      await outputOf(out, "tar", "--extract", "--gzip", "--file", `${name}.tar.gz`, `${name}/mailroom`);
      const head = new DataView(
        await Bun.file(join(out, name, "mailroom"))
          .slice(0, 4096)
          .arrayBuffer(),
      );
      expect([target, head.getUint32(0), head.getUint16(18, true)]).toEqual([target, 0x7f454c46, machine]);
      expect(new TextDecoder("latin1").decode(head)).toContain(`${loader}\0`);
    }
  });

  test.skipIf(muslMissing !== undefined)(
    `runs on musl${muslMissing ? ` (skipped: ${muslMissing})` : ""}: it is set up, takes mail in and serves it`,
    async () => {
      const root = join(temporaryFolder(), "root");
      cpSync(join(MUSL, "x64"), root, { recursive: true, verbatimSymlinks: true });
      cpSync(join(out, `mailroom-${version}-linux-x64-musl`, "mailroom"), join(root, "mailroom"));
      const place = { data: "/data", cwd: root, program: [...IN_ROOT, root] };
      expect((await run(place, ["version"])).stdout.trim()).toMatch(BUILD);
      const set = ["--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada"];
      const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...set);
      await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
      const server = await serve(place);
      const { send, close } = mailer(server.mx);
      const envelope = { from: "carol@remote.example", to: "ada@acme.test" };
      expect((await send(envelope, letter({ subject: "On musl" }))).reply).toStartWith("250 ");
      close();
      const { body } = await apiClient(server.http, apiKey).get("/search?q=subject:musl");
      expect(body.threads).toMatchObject([{ subject: "On musl", folder: "inbox" }]);
      expect(await server.kill("SIGTERM")).toBe(0);
    },
    120_000,
  );

  const emulated = Bun.which(EMULATOR) !== null && existsSync(join(ARM64_ROOT, "lib/libc.so.6"));
  test.skipIf(!emulated)(
    `runs on arm64${emulated ? "" : ` (skipped: ${EMULATOR} or libc6-arm64-cross is missing)`}`,
    async () => {
      const executable = join(out, `mailroom-${version}-linux-arm64`, "mailroom");
      expect(await outputOf(out, EMULATOR, "-L", ARM64_ROOT, executable, "version")).toMatch(BUILD);
    },
  );

  test.skipIf(!emulated || MUSL === "")(
    `runs on arm64 with musl${emulated && MUSL !== "" ? "" : ` (skipped: ${EMULATOR} or MAILROOM_TEST_MUSL is missing)`}`,
    async () => {
      const executable = join(out, `mailroom-${version}-linux-arm64-musl`, "mailroom");
      expect(await outputOf(out, EMULATOR, "-L", join(MUSL, "arm64"), executable, "version")).toMatch(BUILD);
    },
  );
});

test("only a clean commit is released, with the version of the changelog", async () => {
  const folder = await withPackages(await clone(), "linked");
  writeFileSync(join(folder, "added"), "");
  await expect(release(folder, TARGET)).rejects.toThrow("these are changed:\n?? added");
  unlinkSync(join(folder, "added"));
  writeFileSync(join(folder, "CHANGELOG.md"), "# Changelog\n\n## 0.0.9\n");
  await outputOf(
    folder,
    "git",
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@example.test",
    "commit",
    "--quiet",
    "-am",
    "older",
  );
  await expect(release(folder, TARGET)).rejects.toThrow(
    `package.json says ${version}, the changelog begins with 0.0.9`,
  );
  await expect(release(folder, "linux-mips")).rejects.toThrow("there is no target linux-mips");
});

test("a runtime other than the pinned one is refused", () => {
  const content = new TextEncoder().encode("bun");
  const integrity = `sha512-${new Bun.CryptoHasher("sha512").update(content).digest("base64")}`;
  checkIntegrity("bun", content, integrity);
  expect(() => checkIntegrity("bun", new TextEncoder().encode("bug"), integrity)).toThrow(
    "is not what package-lock.json",
  );
  expect(() => checkIntegrity("bun", content, undefined)).toThrow("has no sha512 of bun");
});
