/** The pages at the root and in docs/, and the shell examples in them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "../..");
/** The pages of docs/, as paths from the root of the project. */
export const DOCS = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);
/** All pages, as paths from the root. */
export const PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...DOCS];

export const textOf = (page: string): string => readFileSync(join(root, page), "utf8");

export interface Example {
  page: string;
  /** The line of its first command, from 1. */
  line: number;
  /** The words after `sh` in the fence. */
  mark: string;
  code: string;
}

export const EXAMPLES: Example[] = PAGES.flatMap((page) => {
  const text = textOf(page);
  return [...text.matchAll(/^```sh(.*)\n([\s\S]*?)^```$/gm)].map(({ index, 1: mark = "", 2: code = "" }) => ({
    page,
    line: text.slice(0, index).split("\n").length + 1,
    mark: mark.trim(),
    code,
  }));
});
