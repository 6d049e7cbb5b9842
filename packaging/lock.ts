/** Reads package-lock.json: the packages, their versions and their use. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface Locked {
  version: string;
  integrity?: string;
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
}

/** By path from the root: `node_modules/…`. */
export function readLock(root: string): Map<string, Locked> {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>;
  };
  return new Map(Object.entries(packages).filter(([path]) => path !== ""));
}

/** The packages in the executable: all except those for development only, or for one kind of machine. */
export function shippedPackages(root: string): { path: string; name: string; version: string }[] {
  return [...readLock(root)]
    .filter(([, { dev, devOptional, optional }]) => !dev && !devOptional && !optional)
    .map(([path, { version }]) => ({ path, name: path.slice(path.lastIndexOf("node_modules/") + 13), version }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}
