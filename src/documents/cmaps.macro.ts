/** A macro that reads the character maps of pdfjs-dist while cmaps.ts is compiled, so that the executable contains them. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Names and contents, base64. */
export function readCMaps(): Record<string, string> {
  const folder = join(dirname(Bun.resolveSync("pdfjs-dist/package.json", import.meta.dir)), "cmaps");
  const names = readdirSync(folder).filter((file) => file.endsWith(".bcmap"));
  return Object.fromEntries(
    names.sort().map((file) => [file.replace(/\.bcmap$/, ""), readFileSync(join(folder, file)).toString("base64")]),
  );
}
