/**
 * Reads commands from the octets of a connection: lines, and the literals in them (RFC 9051 §4.3, RFC 7888). Bounded before
 * a command is whole: a client cannot make the server keep more than one command of the allowed size.
 */
import type { Command } from "./grammar.ts";

export interface LineLimits {
  /** Octets of a command without its large literal. */
  command: number;
  /** Octets of the literal that `isLarge` allows. */
  large(): number;
  /** True if a large literal may follow the text, which is the beginning of an APPEND. */
  isLarge(text: string): boolean;
}

export type Read =
  | { command: Command }
  /** A literal is announced: the client waits for `+`. */
  | { waits: true }
  /** Refused: the reply, and its tag if that is known. `ends`: the rest cannot be told from commands, so the connection ends. */
  | { refused: string; tag: string; ends: boolean };

const ANNOUNCED = /(~?)\{(\d{1,10})(\+?)\}$/;
/** RFC 7888: LITERAL-. */
const LONGEST_UNASKED = 4_096;

export function createLines(limits: LineLimits) {
  let waiting: Buffer[] = [];
  let length = 0;
  let text = "";
  let literals = new Map<number, Uint8Array>();
  /** Octets of literals so far, but for large ones. */
  let kept = 0;
  /** Octets of the present literal that are to come; undefined within a line. */
  let missing: number | undefined;
  let at = 0;
  let isLarge = false;
  let ended = false;

  const reset = (): void => {
    text = "";
    literals = new Map();
    kept = 0;
    missing = undefined;
  };

  function take(count: number): Buffer {
    const all = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    const rest = all.subarray(count);
    waiting = rest.length > 0 ? [rest] : [];
    length = rest.length;
    return all.subarray(0, count);
  }

  const refuse = (refused: string, ends: boolean): Read => {
    const tag = /^[^\s+]{1,100} /.exec(text)?.[0].trimEnd() ?? "*";
    reset();
    if (ends) {
      ended = true;
      waiting = [];
      length = 0;
    }
    return { refused, tag, ends };
  };

  /** The line that has come, or the reason why it cannot be taken. */
  function line(): Read | undefined {
    const all = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    waiting = length > 0 ? [all] : [];
    const end = all.indexOf(0x0a);
    if ((end < 0 ? all.length : end) + text.length + kept > limits.command) {
      return refuse("BAD The command is too long", true);
    }
    if (end < 0) return undefined;
    const added = take(end + 1)
      .toString("latin1")
      .replace(/\r?\n$/, "");
    const announced = ANNOUNCED.exec(added);
    at = text.length + (announced?.index ?? 0);
    text += added;
    if (!announced) {
      const command = { text, literals };
      reset();
      return { command };
    }
    const size = Number(announced[2]);
    const isUnasked = announced[3] === "+";
    isLarge = limits.isLarge(text);
    if (size > (isLarge ? limits.large() : limits.command - kept) || (isUnasked && size > LONGEST_UNASKED)) {
      // RFC 7888 §5, RFC 7889 §4.
      const status = isUnasked || !isLarge ? "BAD" : "NO";
      return refuse(
        `${status} ${isLarge ? "[TOOBIG] The message is too large" : "The literal is too long"}`,
        isUnasked,
      );
    }
    missing = size;
    return isUnasked ? next() : { waits: true };
  }

  function next(): Read | undefined {
    if (missing === undefined) return line();
    if (length < missing) return undefined;
    const octets = Buffer.from(take(missing));
    literals.set(at, octets);
    if (!isLarge) kept += octets.length;
    missing = undefined;
    return line();
  }

  return {
    push(chunk: Buffer): void {
      if (ended) return;
      waiting.push(chunk);
      length += chunk.length;
    },
    /** The next command, or what else is to be told the client; undefined until more octets have come. */
    next,
    /** Forgets what came before TLS began. */
    clear(): void {
      waiting = [];
      length = 0;
      reset();
    },
    isEmpty: (): boolean => length === 0,
  };
}
