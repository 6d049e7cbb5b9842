/**
 * `npm run release [TARGET…]`: makes archives for Linux in dist/release, with SHA256SUMS and a list of parts (CycloneDX).
 * `--out DIR` writes elsewhere.
 *
 * The same commit gives the same bytes, in any folder and at any time: times are the commit's, owners and modes are set,
 * lists are sorted, and package-lock.json pins the tools.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../package.json" with { type: "json" };
import { listLicences } from "./licences.ts";
import { fetchBun } from "./runtimes.ts";
import { listParts } from "./sbom.ts";
import { outputOf, runCommand } from "./tools.ts";

const ROOT = join(import.meta.dir, "..");

/** Targets by the name of the archive, with Bun's name and the npm package of the runtime. */
const TARGETS: Readonly<Record<string, { target: string; runtime: string }>> = {
  "linux-x64": { target: "bun-linux-x64", runtime: "@oven/bun-linux-x64" },
  "linux-x64-musl": { target: "bun-linux-x64-musl", runtime: "@oven/bun-linux-x64-musl" },
  "linux-arm64": { target: "bun-linux-arm64", runtime: "@oven/bun-linux-aarch64" },
  "linux-arm64-musl": { target: "bun-linux-arm64-musl", runtime: "@oven/bun-linux-aarch64-musl" },
};

/** Executable files of every archive, beside the executable itself. */
const PROGRAMS = ["install.sh", "packaging/mailroom", "packaging/nsupdate-hook"];
const DOCUMENTS = [
  "packaging/mailroom.service",
  "packaging/Dockerfile",
  "packaging/compose.yaml",
  ...filesIn("packaging/monitoring"),
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "LICENSE",
  ...filesIn("docs"),
];

/** The files in a folder of the project and in the folders below it: paths from the project's root. */
function filesIn(folder: string): string[] {
  const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

/** Time of the commit, epoch seconds. @throws Error when files differ from the commit */
async function commitTime(): Promise<number> {
  const changes = await outputOf(ROOT, "git", "status", "--porcelain");
  if (changes !== "") throw new Error(`what is released is a commit; these are changed:\n${changes}`);
  return Number(await outputOf(ROOT, "git", "log", "-1", "--format=%ct"));
}

function checkChangelog(): void {
  const newest = /^## (\S+)/m.exec(readFileSync(join(ROOT, "CHANGELOG.md"), "utf8"))?.[1];
  if (newest !== version) throw new Error(`package.json says ${version}, the changelog begins with ${newest}`);
}

function put(file: string, content: string | Uint8Array, mode = 0o644): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  chmodSync(file, mode);
}

async function buildExecutable(name: string, outfile: string): Promise<void> {
  const { target, runtime } = TARGETS[name] as (typeof TARGETS)[string];
  const bun = await fetchBun(ROOT, runtime, dirname(outfile));
  const options = [`--target=${target}`, `--compile-executable-path=${bun}`, `--outfile=${outfile}`];
  await runCommand(ROOT, process.execPath, "run", "--silent", "build", ...options);
  chmodSync(outfile, 0o755);
}

/** Packs a folder inside `scratch` as a gzipped archive with that time, in epoch seconds. */
async function pack(scratch: string, folder: string, time: number): Promise<Uint8Array> {
  const tar = join(scratch, `${folder}.tar`);
  await runCommand(
    scratch,
    "tar",
    "--create",
    "--file",
    tar,
    "--format=ustar",
    "--sort=name",
    `--mtime=@${time}`,
    "--owner=root:0",
    "--group=root:0",
    "--no-acls",
    "--no-xattrs",
    "--no-selinux",
    folder,
  );
  const packed = Bun.gzipSync(readFileSync(tar), { level: 6, library: "libdeflate" });
  rmSync(tar);
  return packed;
}

async function release(names: readonly string[], out: string): Promise<void> {
  const time = await commitTime();
  checkChangelog();
  const parts = await listParts(ROOT, time);
  const licences = listLicences(ROOT);
  rmSync(out, { recursive: true, force: true });
  put(join(out, `mailroom-${version}.cdx.json`), parts);
  const scratch = mkdtempSync(join(tmpdir(), "mailroom-release-"));
  try {
    for (const name of names) {
      const folder = `mailroom-${version}-${name}`;
      const inside = join(scratch, folder);
      put(join(inside, "sbom.cdx.json"), parts);
      put(join(inside, "THIRD-PARTY-LICENSES"), licences);
      for (const file of PROGRAMS) put(join(inside, file), readFileSync(join(ROOT, file)), 0o755);
      for (const file of DOCUMENTS) put(join(inside, file), readFileSync(join(ROOT, file)));
      for (const nested of ["", "packaging", "packaging/monitoring", "docs", "docs/screenshots"])
        chmodSync(join(inside, nested), 0o755);
      await buildExecutable(name, join(scratch, "build", "mailroom"));
      copyFileSync(join(scratch, "build", "mailroom"), join(inside, "mailroom"));
      rmSync(join(scratch, "build"), { recursive: true });
      put(join(out, `${folder}.tar.gz`), await pack(scratch, folder, time));
      rmSync(inside, { recursive: true });
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  const files = readdirSync(out).sort();
  const sumOf = (file: string): string =>
    createHash("sha256")
      .update(readFileSync(join(out, file)))
      .digest("hex");
  const sums = files.map((file) => `${sumOf(file)}  ${file}\n`).join("");
  put(join(out, "SHA256SUMS"), sums);
  process.stdout.write(sums);
}

const { values, positionals } = parseArgs({ allowPositionals: true, options: { out: { type: "string" } } });
const names = positionals.length > 0 ? positionals : Object.keys(TARGETS);
const unknown = names.find((name) => !(name in TARGETS));
if (unknown !== undefined) {
  console.error(`release: there is no target ${unknown}: give ${Object.keys(TARGETS).join(", ")}`);
  process.exit(2);
}
try {
  await release(names, values.out ?? join(ROOT, "dist/release"));
} catch (error) {
  console.error(`release: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
