/** Documents for people: tables and `name: value` lines. What a script wants is --json. */
import type { Command, Document } from "./command.ts";

const isList = (document: Document): document is object[] => Array.isArray(document);

function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.map(cell).join(", ");
  if (typeof value === "object") return Object.values(value).map(cell).join(" ");
  return String(value);
}

const pad = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - Bun.stringWidth(text)));

/** Nothing for no rows. */
export function table(rows: readonly object[], columns: readonly string[]): string {
  if (rows.length === 0) return "";
  const lines = [
    columns,
    ...rows.map((row) => columns.map((column) => cell((row as Record<string, unknown>)[column]))),
  ];
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => Bun.stringWidth(line[i] ?? ""))));
  return lines
    .map(
      (line) =>
        `${line
          .map((text, i) => pad(text, widths[i] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

export function record(document: Document): string {
  return Object.entries(document)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${cell(value)}\n`)
    .join("");
}

/** The document as the command prints it. */
export function render(described: Command, document: Document, json: boolean): string {
  if (json) return `${JSON.stringify(document)}\n`;
  if (described.text) return described.text(document);
  return isList(document) ? table(document, described.columns ?? Object.keys(document[0] ?? {})) : record(document);
}
