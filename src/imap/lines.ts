/**
 * Reads commands from the octets of a connection: lines, and the literals in them (RFC 9051 §4.3, RFC 7888). Bounded before
 * a command is whole: a client cannot make the server keep more than one command of the allowed size, with one large literal.
 */
import type { Command } from "./grammar.ts";

export interface LineLimits {
  /** Octets of a command without its large literal. */
  command: number;
  /** Octets of the large literal. */
  large(): number;
  /** True if it may follow the text, which is the beginning of an APPEND. */
  takesLarge(text: string): boolean;
}

export type Read =
  | { command: Command }
  /** A literal is announced: the client waits for `+`. `large`: its octets, if it is large. */
  | { waits: true; large?: number }
  /** Refused: the reply, and its tag if that is known. `ends`: the rest cannot be told from commands, so the connection ends. */
  | { refused: string; tag: string; ends: boolean };

const LF = 0x0a;
const ANNOUNCED = /(~?)\{(\d{1,10})(\+?)\}$/;
/** RFC 7888: LITERAL-. */
const LONGEST_UNASKED = 4_096;
/** Octets that are allocated for a literal at first. */
const FIRST_OCTETS = 64 * 1024;
const MOST_CHUNKS = 64;

export function createImapCommandReader(limits: LineLimits) {
  let waiting: Buffer[] = [];
  let length = 0;
  /** Number of those chunks that are known to have no end of a line. */
  let searched = 0;
  let text = "";
  let literals = new Map<number, Uint8Array>();
  /** Octets of literals so far, but for the large one. */
  let taken = 0;
  let hasLarge = false;
  /** The literal that comes; undefined within a line. Octets are copied: the client decides how many come at once. */
  let coming: { octets: Buffer; filled: number; size: number; at: number } | undefined;
  let ended = false;

  const empty = (): void => {
    waiting = [];
    length = 0;
    searched = 0;
  };

  const reset = (): void => {
    text = "";
    literals = new Map();
    taken = 0;
    hasLarge = false;
    coming = undefined;
  };

  function take(count: number): Buffer {
    const all = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    const rest = all.subarray(count);
    waiting = rest.length > 0 ? [rest] : [];
    length = rest.length;
    searched = 0;
    return all.subarray(0, count);
  }

  const refuse = (refused: string, ends: boolean): Read => {
    const tag = /^[^\s+]{1,100} /.exec(text)?.[0].trimEnd() ?? "*";
    reset();
    if (ends) {
      ended = true;
      empty();
    }
    return { refused, tag, ends };
  };

  /** The line that has come, or the reason why it cannot be taken. */
  function line(): Read | undefined {
    while (searched < waiting.length && !waiting[searched]?.includes(LF)) searched++;
    if (searched === waiting.length && length + text.length + taken <= limits.command) {
      // Many small ones would take more memory than their octets.
      if (waiting.length > MOST_CHUNKS) {
        waiting = [Buffer.concat(waiting)];
        searched = 1;
      }
      return undefined;
    }
    const all = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    const end = all.indexOf(LF);
    if ((end < 0 ? all.length : end) + text.length + taken > limits.command) {
      return refuse("BAD The command is too long", true);
    }
    const added = take(end + 1)
      .toString("latin1")
      .replace(/\r?\n$/, "");
    const announced = ANNOUNCED.exec(added);
    const at = text.length + (announced?.index ?? 0);
    text += added;
    if (!announced) {
      const command = { text, literals };
      reset();
      return { command };
    }
    const size = Number(announced[2]);
    const isUnasked = announced[3] === "+";
    const takesLarge = !hasLarge && limits.takesLarge(text);
    const isLarge = takesLarge && size > LONGEST_UNASKED;
    if (size > (isLarge ? limits.large() : limits.command - taken) || (isUnasked && size > LONGEST_UNASKED)) {
      // RFC 7888 §5, RFC 7889 §4.
      const status = isUnasked || !takesLarge ? "BAD" : "NO";
      return refuse(
        `${status} ${takesLarge ? "[TOOBIG] The message is too large" : "The literal is too long"}`,
        isUnasked,
      );
    }
    if (isLarge) hasLarge = true;
    else taken += size;
    coming = { octets: Buffer.allocUnsafeSlow(Math.min(size, FIRST_OCTETS)), filled: 0, size, at };
    fill(take(Math.min(length, size)));
    return isUnasked ? next() : { waits: true, ...(isLarge && { large: size }) };
  }

  /** Takes octets of the literal that comes; returns how many. */
  function fill(octets: Buffer): number {
    if (!coming) return 0;
    const { size, filled } = coming;
    const count = Math.min(octets.length, size - filled);
    if (filled + count > coming.octets.length) {
      const longer = Buffer.allocUnsafeSlow(Math.min(size, Math.max(2 * coming.octets.length, filled + count)));
      coming.octets.copy(longer, 0, 0, filled);
      coming.octets = longer;
    }
    octets.copy(coming.octets, filled, 0, count);
    coming.filled += count;
    return count;
  }

  function next(): Read | undefined {
    if (!coming) return line();
    if (coming.filled < coming.size) return undefined;
    literals.set(coming.at, coming.octets);
    coming = undefined;
    return line();
  }

  return {
    push(chunk: Buffer): void {
      if (ended) return;
      const rest = chunk.subarray(fill(chunk));
      if (rest.length > 0) waiting.push(rest);
      length += rest.length;
    },
    /** The next command, or what else is to be told the client; undefined until more octets have come. */
    next,
    /** Refuses the literal that the client waits to send. */
    refuse: (reason: string): Read => refuse(reason, false),
    /** Forgets what came before TLS began. */
    clear(): void {
      empty();
      reset();
    },
    isEmpty: (): boolean => length === 0,
  };
}
