/** The licences of all that is bundled: every package that is not for development alone, as it is installed. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readLock } from "./runtimes.ts";

interface Package {
  name: string;
  version: string;
  license?: string | { type: string };
}

const isLicence = (file: string): boolean => /^(licen[cs]e|copying|notice)/i.test(file);

const PREFACE = `Mailroom is under the MIT licence (LICENSE). Its executable contains the packages below, each under its own.

It is built upon Bun (MIT), which contains JavaScriptCore and WebKit (LGPL 2.1 and BSD), BoringSSL, SQLite and others:
its file LICENSE.md names them and says how to link Bun anew.
`;

/** Text. @throws Error for a package that says nothing of its licence */
export function listLicences(root: string): string {
  const packages = Object.entries(readLock(root).packages as Record<string, { dev?: boolean; devOptional?: boolean }>)
    .filter(([path, { dev, devOptional }]) => path !== "" && !dev && !devOptional)
    .map(([path]) => path)
    // Those for other systems are not installed, and in no executable.
    .filter((path) => existsSync(join(root, path, "package.json")))
    .sort();
  const texts = packages.map((path) => {
    const folder = join(root, path);
    const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Package;
    const files = readdirSync(folder).filter(isLicence).sort();
    const kind = typeof license === "object" ? license.type : license;
    if (kind === undefined && files.length === 0) throw new Error(`${name} ${version} says nothing of its licence`);
    const words = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
    return [`${name} ${version}${kind ? ` (${kind})` : ""}`, "", ...words].join("\n").trimEnd();
  });
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  return `${[PREFACE.trimEnd(), ...texts].join(rule)}\n`;
}
