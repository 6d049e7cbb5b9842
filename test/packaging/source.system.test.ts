/** A source archive, which has neither .git nor .gitignore: what is built there is no source of the next build. */
import { expect, test } from "bun:test";
import { cpSync, existsSync, readdirSync, statSync, symlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { outputOf } from "../../packaging/tools.ts";
import type { Bundle } from "../../src/http/bundle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { buildExecutable } from "../harness/servers/executable.ts";

const PROJECT = join(import.meta.dir, "../..");
const NOT_IN_IT = [".git", ".gitignore", "data", "dist", "node_modules"];

test("is built twice, its styles stay as they are, and its checks run", async () => {
  const folder = temporaryFolder();
  for (const name of readdirSync(PROJECT).filter((name) => !NOT_IN_IT.includes(name))) {
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(PROJECT, "node_modules"), join(folder, "node_modules"));
  // Not newer than what is installed: nothing is installed again.
  const lock = "package-lock.json";
  utimesSync(join(folder, lock), new Date(0), statSync(join(PROJECT, lock)).mtime);

  const styles = async (): Promise<string> => {
    const bundle = await outputOf(folder, process.execPath, "src/http/bundle.ts", "app/start.tsx");
    return (JSON.parse(bundle) as Bundle).style;
  };
  const before = await styles();
  expect(before).toContain("--ground");
  for (const _ of ["first", "second"]) {
    await buildExecutable(join(folder, "dist/mailroom"), folder);
    expect(await outputOf(folder, "dist/mailroom", "version")).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{12}$/);
    expect(await styles()).toBe(before);
  }
  expect(existsSync(join(folder, ".gitignore"))).toBe(false);
  await outputOf(folder, process.execPath, "run", "--bun", "biome", "ci", "src/main.ts");
}, 300_000);
