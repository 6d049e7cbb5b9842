/**
 * `npm run lock`: brings package-lock.json in line with package.json, whole for every kind of machine. npm does that only in a
 * folder without installed packages, and never adds what a package of the lock lacks: it has to look at the package anew.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { incompletePackages, readLock } from "./lock.ts";
import { runCommand } from "./tools.ts";

const ROOT = join(import.meta.dir, "..");
const LOCK = "package-lock.json";

const folder = mkdtempSync(join(tmpdir(), "mailroom-lock-"));
try {
  for (const file of ["package.json", ".npmrc"]) copyFileSync(join(ROOT, file), join(folder, file));
  const lock = JSON.parse(readFileSync(join(ROOT, LOCK), "utf8")) as { packages: Record<string, unknown> };
  for (const { path } of incompletePackages(readLock(ROOT))) delete lock.packages[path];
  writeFileSync(join(folder, LOCK), JSON.stringify(lock));
  await runCommand(folder, "npm", "install", "--package-lock-only", "--ignore-scripts");
  const [incomplete] = incompletePackages(readLock(folder));
  if (incomplete) throw new Error(`${incomplete.path} still lacks ${incomplete.lacks.join(", ")}`);
  copyFileSync(join(folder, LOCK), join(ROOT, LOCK));
} finally {
  rmSync(folder, { recursive: true });
}
