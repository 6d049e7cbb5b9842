/** Reads package-lock.json: the packages, their versions and their use. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

interface Locked {
  version: string;
  integrity?: string;
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
  engines?: { node?: string };
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

/** Reads the packages of the lock file, by their path from the root: `node_modules/…`. */
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

/**
 * The packages of the lock, each of which has dependencies that the lock lacks. npm leaves out optional ones for other
 * machines when it changes a lock beside installed packages, and `npm ci` then refuses the lock everywhere.
 */
export function incompletePackages(packages: ReadonlyMap<string, Locked>): { path: string; lacks: string[] }[] {
  /** Node looks in the package's own node_modules first, then in that of each package around it. */
  function has(path: string, name: string): boolean {
    if (packages.has(`${path}/node_modules/${name}`)) return true;
    const around = path.lastIndexOf("/node_modules/");
    return around === -1 ? packages.has(`node_modules/${name}`) : has(path.slice(0, around), name);
  }
  return [...packages].flatMap(([path, { dependencies, optionalDependencies }]) => {
    const lacks = Object.keys({ ...dependencies, ...optionalDependencies }).filter((name) => !has(path, name));
    return lacks.length === 0 ? [] : [{ path, lacks }];
  });
}
