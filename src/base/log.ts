/**
 * Log lines, one JSON object each. No caller logs bodies, Bcc, keys or passwords; as a last resort, this module cuts
 * text that looks like a key or a password.
 */
import { fstatSync } from "node:fs";
import { toIsoTime } from "./time.ts";

const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogFields = Record<string, unknown>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger whose every line carries these fields too, such as the trace id of a session, request or job. */
  child(fields: LogFields): Log;
}

const SECRET =
  /\bmr_[A-Za-z0-9]{8,}|\bwhsec_[A-Za-z0-9+/=]{8,}|\bBearer\s+\S+|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*/g;
const SECRET_FIELD = /^(authorization|password|secret|apiKey|key|token|bcc)$/i;

/** Characters of one text. Other servers choose what some of them say, and how much. */
const LONGEST_TEXT = 8_000;

const cut = (text: string): string => (text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text);

/** Cuts last, since a part of a secret is not known as one. */
const redact = (text: string): string => cut(text.replace(SECRET, "[redacted]"));

/** Characters on which terminals act, or which turn others around, and which JSON leaves as they are. */
const ACTING = /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

const escapeActing = (json: string): string =>
  json.replace(ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** JSON value of a field: errors as name, message, stack and cause; secrets cut. */
function present(name: string, value: unknown): unknown {
  if (SECRET_FIELD.test(name)) return "[redacted]";
  if (value instanceof Error) {
    return {
      name: value.name,
      message: redact(value.message),
      code: (value as { code?: unknown }).code,
      stack: value.stack === undefined ? undefined : redact(value.stack),
      cause: value.cause === undefined ? undefined : present("cause", value.cause),
    };
  }
  return typeof value === "string" ? redact(value) : value;
}

const presentDeeper = (name: string, value: unknown): unknown =>
  typeof value === "object" ? value : present(name, value);

/** Priorities of syslog (RFC 5424 §6.2.1). */
const PRIORITIES: Record<LogLevel, number> = { debug: 7, info: 6, warn: 4, error: 3, silent: 7 };

/**
 * Makes the prefix that tells systemd's journal the priority of a line; the journal removes it (sd-daemon(3)). The prefix is
 * empty where the descriptor `fd` does not lead to the journal. `stream`: the variable JOURNAL_STREAM (systemd.exec(5)).
 */
export function openSystemdPriorities(fd: number, stream: string | undefined): (level: LogLevel) => string {
  if (stream === undefined) return () => "";
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return (level) => (stream === `${dev}:${ino}` ? `<${PRIORITIES[level]}>` : "");
}

/** `write` takes one line without its line end, and its level. `now` gives epoch milliseconds. */
export function createLog(
  level: LogLevel,
  now: () => number,
  write: (line: string, level: LogLevel) => void,
  base: LogFields = {},
): Log {
  const threshold = LOG_LEVELS.indexOf(level);
  const emit = (at: LogLevel, message: string, fields: LogFields = {}): void => {
    if (LOG_LEVELS.indexOf(at) < threshold) return;
    const line: LogFields = { time: toIsoTime(now()), level: at, message: redact(message) };
    let isFlat = true;
    for (const [name, value] of Object.entries({ ...base, ...fields })) {
      if (value === undefined) continue;
      const shown = present(name, value);
      if (typeof shown === "object") isFlat = false;
      line[name] = shown;
    }
    // The replacer that redacts nested values doubles the cost, so flat lines go without it.
    write(escapeActing(isFlat ? JSON.stringify(line) : JSON.stringify(line, presentDeeper)), at);
  };
  return {
    debug: (message, fields) => emit("debug", message, fields),
    info: (message, fields) => emit("info", message, fields),
    warn: (message, fields) => emit("warn", message, fields),
    error: (message, fields) => emit("error", message, fields),
    child: (fields) => createLog(level, now, write, { ...base, ...fields }),
  };
}
