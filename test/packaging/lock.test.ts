/** package-lock.json is whole, for every kind of machine that Bun has. lock.system.test.ts asks npm. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { engines } from "../../package.json";
import { incompletePackages, readLock } from "../../packaging/lock.ts";

const packages = readLock(join(import.meta.dir, "../.."));
const all = [...packages];

test("no package lacks a dependency, those for other machines included (npm run lock)", () => {
  expect(incompletePackages(packages)).toEqual([]);
  const [, bun] = all.find(([path]) => path === "node_modules/bun") ?? [];
  expect(Object.keys(bun?.optionalDependencies ?? {})).toContain("@oven/bun-windows-x64");
});

test("what a package needs is found as Node finds it, and missed where it is not", () => {
  const version = "1.0.0";
  const needs = (dependencies: Record<string, string> = {}, optionalDependencies: Record<string, string> = {}) => ({
    version,
    dependencies,
    optionalDependencies,
  });
  const lock = new Map([
    ["node_modules/a", needs({ b: version }, { "a-darwin": version, "@a/linux": version })],
    ["node_modules/a/node_modules/b", needs({ c: version, d: version })],
    ["node_modules/a/node_modules/d", needs()],
    ["node_modules/c", needs({ b: version })],
    ["node_modules/@a/linux", needs()],
  ]);
  expect(incompletePackages(lock)).toEqual([
    { path: "node_modules/a", lacks: ["a-darwin"] },
    { path: "node_modules/c", lacks: ["b"] },
  ]);
});

test("every package has a version and a sha512, and names no registry", () => {
  const odd = all.filter(
    ([, { version, integrity, ...rest }]) =>
      !/^\d+\.\d+\.\d+/.test(version) || !/^sha512-[\w+/]{86}==$/.test(integrity ?? "") || "resolved" in rest,
  );
  expect(odd).toEqual([]);
});

test("the oldest Node that package.json names suits every package", () => {
  const oldest = engines.node.replace(/^>=/, "");
  expect(oldest).toMatch(/^\d+\.\d+\.\d+$/);
  const wanting = all.flatMap(([path, { engines }]) =>
    engines?.node === undefined || Bun.semver.satisfies(oldest, engines.node) ? [] : [[path, engines.node]],
  );
  expect(wanting).toEqual([]);
});
