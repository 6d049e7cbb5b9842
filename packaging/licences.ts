/** The licences of all packages in the executable, from the installed packages. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { shippedPackages } from "./lock.ts";

const isLicence = (file: string): boolean => /^(licen[cs]e|copying|notice)/i.test(file);

const PREFACE = `Mailroom is under the MIT licence (LICENSE). Its executable contains the packages below, each under its own.

It is built upon Bun (MIT), which contains JavaScriptCore and WebKit (LGPL 2.1 and BSD), BoringSSL, SQLite and others:
its file LICENSE.md names them and says how to link Bun anew.
`;

/** The text of THIRD-PARTY-LICENSES. @throws Error for a package without a licence */
export function listLicences(root: string): string {
  const texts = shippedPackages(root).map(({ path, name, version }) => {
    const folder = join(root, path);
    const { license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { license?: string };
    const files = readdirSync(folder).filter(isLicence).sort();
    if (license === undefined && files.length === 0) throw new Error(`${name} ${version} says nothing of its licence`);
    const words = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
    return [`${name} ${version}${license === undefined ? "" : ` (${license})`}`, "", ...words].join("\n").trimEnd();
  });
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  return `${[PREFACE.trimEnd(), ...texts].join(rule)}\n`;
}
