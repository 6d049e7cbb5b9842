/** A macro that names the build while version.ts is compiled: once when the executable is built, at each start from source. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
/** Characters of a digest that tell builds apart. */
const LENGTH = 12;

/** A digest of what the program is made of, the same in every folder and without git. */
export function buildId(): string {
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1));
  const hash = createHash("sha256");
  for (const path of [...sources, "package.json", "package-lock.json"].sort()) {
    const content = readFileSync(join(ROOT, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex").slice(0, LENGTH);
}
