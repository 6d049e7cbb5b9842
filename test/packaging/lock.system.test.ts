/** The documented `npm ci`, run dry in a fresh folder for every kind of machine that Bun has, without a network. */
import { expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { outputOf } from "../../packaging/tools.ts";
import { temporaryFolder } from "../harness/folder.ts";

const PROJECT = join(import.meta.dir, "../..");

test.each([
  "linux x64 glibc",
  "linux x64 musl",
  "linux arm64 glibc",
  "linux arm64 musl",
  "darwin x64",
  "darwin arm64",
  "win32 x64",
  "win32 arm64",
])(
  "%s",
  async (machine) => {
    const folder = temporaryFolder();
    for (const file of ["package.json", "package-lock.json", ".npmrc"]) {
      copyFileSync(join(PROJECT, file), join(folder, file));
    }
    const [os, cpu, libc] = machine.split(" ");
    const kind = [`--os=${os}`, `--cpu=${cpu}`, ...(libc === undefined ? [] : [`--libc=${libc}`])];
    const nothing = ["--offline", `--cache=${join(folder, "cache")}`, "--loglevel=error"];
    const said = await outputOf(folder, "npm", "ci", "--dry-run", ...nothing, ...kind);
    expect(said).toMatch(/^added \d{3} packages/m);
    const system = os === "win32" ? "windows" : os;
    const runtime = `@oven/bun-${system}-${cpu === "arm64" ? "aarch64" : cpu}${libc === "musl" ? "-musl" : ""}`;
    expect(said).toContain(`add ${runtime} `);
  },
  60_000,
);
