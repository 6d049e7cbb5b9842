/** Prints for people: tables and `name: value` lines of documents (scripts use --json), and progress on stderr. */
import type { DnsRecord } from "../admin/dns.ts";
import type { Command, Document } from "./command.ts";
import type { CommandContext } from "./run.ts";

const DNS_COLUMNS = ["purpose", "type", "name", "value"];

const isList = (document: Document): document is object[] => Array.isArray(document);

function cell(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.map(cell).join(", ");
  if (typeof value === "object") return Object.values(value).map(cell).join(" ");
  return String(value);
}

/**
 * A text without characters that a terminal acts on, or by which it turns around what follows: other servers and senders wrote
 * parts of it.
 */
export const withoutTerminalControls = (text: string): string =>
  text.replace(/(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");

const pad = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - Bun.stringWidth(text)));

/** Empty without rows. */
export function formatTable(rows: readonly object[], columns: readonly string[]): string {
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

/** A line `name: value` for each defined field; those of an object in it below its name, and of a list one line each. */
export function formatRecord(document: Document, margin = ""): string {
  return Object.entries(document)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${margin}${name}:${formatFieldValue(value, `${margin}  `)}\n`)
    .join("");
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

function formatFieldValue(value: unknown, margin: string): string {
  if (Array.isArray(value) && value.some(isObject)) return value.map((one) => `\n${margin}${cell(one)}`).join("");
  if (isObject(value) && !Array.isArray(value) && Object.keys(value).length > 0)
    return `\n${formatRecord(value, margin).trimEnd()}`;
  return ` ${cell(value)}`;
}

/** DNS records as a table. */
export function dnsTable(records: readonly DnsRecord[], columns = DNS_COLUMNS): string {
  const rows = records.map((dns) => ({ ...dns, purpose: dns.optional ? `${dns.purpose} (optional)` : dns.purpose }));
  return formatTable(rows, columns);
}

const ONCE_PUBLISHED =
  "Once they are published: mailroom domain verify DOMAIN. Before, no mail is taken for the domain, and none is sent from it.";

/** A document with the records of a new domain: its other fields first, then the records as a table. */
function recordWithDns({ dns, ...rest }: { dns: DnsRecord[] }): string {
  return `${formatRecord(rest)}\n${dnsTable(dns)}\n${ONCE_PUBLISHED}\n`;
}

const hasDns = (document: Document): document is { dns: DnsRecord[] } => "dns" in document;

/** The document as the command prints it. */
export function renderCommandOutput(described: Command, document: Document, json: boolean): string {
  return json ? `${JSON.stringify(document)}\n` : withoutTerminalControls(formatDocument(described, document));
}

function formatDocument(described: Command, document: Document): string {
  if (described.text) return described.text(document);
  if (hasDns(document)) return recordWithDns(document);
  return isList(document)
    ? formatTable(document, described.columns ?? Object.keys(document[0] ?? {}))
    : formatRecord(document);
}

/** Time between two lines. */
const PROGRESS_MS = 2_000;

export interface Progress {
  /** True after SIGTERM or SIGINT. */
  isInterrupted(): boolean;
  /** Writes the line, unless one was written just now. */
  tell(line: () => string): void;
}

export function watchProgress({ io, runtime }: Pick<CommandContext, "io" | "runtime">): Progress {
  let interrupted = false;
  void io.interrupted().then(() => {
    interrupted = true;
  });
  let reportedAt = runtime.now();
  return {
    isInterrupted: () => interrupted,
    tell(line) {
      const now = runtime.now();
      if (now - reportedAt < PROGRESS_MS) return;
      reportedAt = now;
      io.writeStderr(`${line()}\n`);
    },
  };
}
