/**
 * No regular expression of the program takes more than linear time on what strangers choose. scslre finds quantifiers whose
 * matches overlap; what it finds is mended, or its input has a bound, which is told here.
 */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "oxc-parser";
import { analyse } from "scslre";

const SRC = join(import.meta.dir, "../src");

/** Expressions whose work grows with the square of their input, and what bounds that. */
const BOUNDED: Readonly<Record<string, string>> = {
  "api/mcp/tools.ts ^(?:([a-z]{3}_)[^@]*|(<)[^<>]+@[^<>]+>)$": "LONGEST_ID, looked at first",
  "api/reference/snippets.ts (\\w+)\\/\\{(\\w+)\\}": "a path of our own document",
  "config.ts ^\\/+|\\/+$": "the operator's environment",
  "config.ts ^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$": "the operator's environment",
  "documents/xlsx.ts \\[[^\\]]*\\]|general": "LONGEST_FORMAT",
  "documents/xlsx.ts h+[^ymdhs]*m+|m+[^ymdhs]*s+": "LONGEST_FORMAT",
  "imap/grammar.ts =+$": "the end of our own base64, two characters at most",
  "mailbox/junk/tokens.ts \\s{4,}\\S+$": "the last 100 characters",
  "mailbox/junk/tokens.ts [.:]*\\d*$": "LONGEST_AUTHORITY",
  "message/address.ts ^\\s*mailto:([^?]*).*$": "MAX_WORD_LENGTH",
  "message/address.ts [^\\s\"'<>()[\\],;:@\\ufe6b\\uff20]+\\s?[@\\ufe6b\\uff20]\\s?[\\p{L}\\p{M}\\p{N}_-]+(?:[.\\u2024\\u3002\\ufe52\\uff0e\\uff61][\\p{L}\\p{M}\\p{N}_-]+)+":
    "MAX_WORD_LENGTH",
  "message/codes.ts ([A-Za-z0-9]+)…$": "the last 80 characters",
  "message/codes.ts <style[\\s\\S]*?<\\/style>|<[^>]*>": "LONGEST_ABOUT",
  "message/codes.ts ^(?:[a-z][a-z0-9+.-]*:\\/\\/)?([^/?#]*)([\\s\\S]*)$": "the 4,000 characters of a link",
  "message/codes.ts :[^@]+@": "the 4,000 characters of a link",
  "message/codes.ts [).,;:!?*_\\]}|\\\\]+$": "the 4,000 characters of a link",
  "message/ground.ts [a-z-]+\\([^()]*\\)|[^\\s,/]+": "MAX_VALUE",
  "message/subject.ts \\s*\\(fwd\\)$": "white space of a subject is single by then",
  "message/selector-cost.ts <(\\/?)([a-z][a-z\\d]*)[^>]*>": "sanitised HTML, where each < begins a tag that ends",
  "message/match.ts ^(?:(?!not\\b|and\\b|or\\b|style\\()([\\w-]+)(?![\\w-]*\\())?\\s*(.*)$": "LONGEST_CONDITION",
  "message/ink.ts ,(?![^(]*\\))": "MAX_VALUE",
  "message/ink.ts [a-z-]+\\([^()]*\\)|\\S+": "MAX_VALUE",
  "message/hiding.ts ([a-z\\d]+)\\(([^)]{0,200})\\)": "MAX_VALUE",
  "message/colour-filter.ts ([a-z-]+)\\(\\s*([^()]*(?:\\([^()]*\\)[^()]*)*)\\)": "MAX_VALUE",
  "message/declarations.ts ^(?:[+-]?0|[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:px|pt|pc|em|rem|ex|ch|in|cm|mm|q|%|v[a-z]{1,3})|auto|none|normal|(?:x{1,3}-)?(?:small|large)|medium|smaller|larger|inherit|initial|unset|revert(?:-layer)?|(?:min|max|fit)-content|.*\\(.*)$":
    "MAX_VALUE",
  "message/declarations.ts ^(?:\\d+\\.?\\d*|\\.\\d+)$": "MAX_VALUE",
  "message/declarations.ts (?:url|[a-z-]*gradient|image|image-set)\\((?:[^()]|\\([^()]*\\))*\\)?": "MAX_VALUE",
  "message/declarations.ts [a-z-]+\\((?:[^()]|\\((?:[^()]|\\([^()]*\\))*\\))*\\)|[^\\s]+": "MAX_VALUE",
  "moving/write-conversations.ts .* ON ": "our own SQL",
  "moving/rows.ts .*p\\.": "our own SQL",
  "operations/person/session-in-app.ts \\bVersion\\/[\\d.]+.*\\bSafari\\/": "LONGEST_READ",
  "outbound/bcc.ts ^\\.+|\\.+$": "LONGEST_HOST",
  "replica/litestream.ts ^v?(\\d+\\.\\d+\\.\\d+\\S*)$": "the 200 characters that are read of a program's version",
  'search/fold.ts ^<?([^\\s<>"\\ufffd]+)@([^\\s<>"@\\ufffd]+\\.[^\\s<>"@\\ufffd]+)>?$':
    "LONGEST_ENTRY, looked at first",
  "search/meilisearch/process.ts ^meilisearch (\\d+\\.\\d+\\.\\d+\\S*)$":
    "the 200 characters that are read of a program's version",
  "store/settings.ts \\/+$": "the operator's setting",
};

interface Found {
  file: string;
  source: string;
  flags: string;
}

function* expressionsIn(node: unknown, file: string): Generator<Found> {
  if (typeof node !== "object" || node === null) return;
  const { regex } = node as { regex?: { pattern: string; flags: string } };
  if (regex) yield { file, source: regex.pattern, flags: regex.flags };
  for (const child of Object.values(node)) yield* expressionsIn(child, file);
}

const expressions = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((file) => /\.tsx?$/.test(file))
  .flatMap((file) => [...expressionsIn(parseSync(file, readFileSync(join(SRC, file), "utf8")).program, file)]);

/** True if an input exists on which it takes more than linear time. */
const isSlow = ({ source, flags }: Pick<Found, "source" | "flags">): boolean =>
  analyse({ source, flags }).reports.length > 0;

test("the check finds what strangers have used, and leaves alone what is linear", () => {
  const known = [
    /^charset\s*=\s*"?([^"]*)"?$/i,
    /^\d{3}[- ]([^\s=]*)[\s=]*(.*)$/,
    /^([\w.-]*)\s*:\s*(.*)$/,
    /[ \t\r\n]+$/,
    /^(a+)+$/,
  ];
  expect(known.filter((one) => !isSlow(one))).toEqual([]);
  expect([/\s+/g, /^[\w-]+$/, /"[^"]*"/g].filter(isSlow)).toEqual([]);
});

test("every expression is linear, or what bounds its input is told", () => {
  expect(expressions.length).toBeGreaterThan(900);
  const slow = expressions.filter(isSlow).map(({ file, source }) => `${file} ${source}`);
  expect(slow.filter((one) => !(one in BOUNDED))).toEqual([]);
  expect(Object.keys(BOUNDED).filter((one) => !slow.includes(one))).toEqual([]);
}, 60_000);
