/**
 * The result of a delivery attempt for one recipient, read from the remote's reply (RFC 5321 §4.2, RFC 3463), and
 * whether a refusal concerns the address itself. Pure.
 *
 * Invariant: the reply code decides whether a recipient is accepted, deferred or refused; the enhanced status code only
 * gives the reason. Only a refusal can be hard. A reply has no characters that its reader does not see.
 */

import { toVisibleLine } from "../message/characters.ts";

export interface DeliveryResult {
  kind: "accepted" | "deferred" | "refused";
  /** The remote's reply, or the reason for its absence: one line of at most 500 characters, for people. */
  reply: string;
  /** The failure is permanent and concerns the address (rules: Hard failure). */
  hard: boolean;
  /** Reply code, where there was a reply. */
  code?: number | undefined;
  /** Enhanced status code, its class in step with `kind`. */
  status?: string | undefined;
  /** Name of the host that replied. */
  remote?: string | undefined;
  /** The remote knows what the sender wants to be told, and tells it from now on (RFC 3461 §5.2.1). */
  reports?: boolean;
}

/** The step of an attempt that a reply is for, or in which the attempt ended. */
export type Stage = "dns" | "connect" | "ehlo" | "auth" | "mail" | "rcpt" | "data";

export interface Reply {
  command: Stage;
  /**
   * Absent when there was no reply: the class of `status` then decides the kind, and without `status` it is deferred.
   */
  code?: number | undefined;
  /** Enhanced status code; without it, it is looked for in the text. */
  status?: string | undefined;
  /** The reply as received, with codes and in several lines, or a description of what happened instead. */
  text: string;
  remote?: string | undefined;
}

/** No transaction could begin with the remote. Nothing was sent, and every recipient has this result. */
export class DeliveryFailure extends Error {
  override readonly name = "DeliveryFailure";
  readonly result: DeliveryResult;

  constructor(result: DeliveryResult) {
    super(result.reply);
    this.result = result;
  }
}

const LONGEST_REPLY = 500;
const CLASS_OF_KIND = { accepted: 2, deferred: 4, refused: 5 } as const;
/** Matches no IP address, such as 5.1.1.2, and no version number. */
const LEADING_STATUS = /^\(?#?([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)\)?:?\s*/;
/** The status as qmail and its relatives write it: `sorry, no mailbox here by that name (#5.1.1)`. */
const MARKED_STATUS = /#([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;

export function toDeliveryResult({ command, code, status, text, remote }: Reply): DeliveryResult {
  const lines = text.split(/\r?\n/).map((line) => (code === undefined ? line : line.replace(/^\d{3}(?:[ -]|$)/, "")));
  const enhanced = status ?? (code === undefined ? undefined : statusIn(lines));
  const kind = classifyReply(command, code === undefined ? enhanced : String(code));
  const words = lines.map((line) => line.replace(LEADING_STATUS, "")).join(" ");
  return {
    kind,
    reply: oneLine(
      [code, code === undefined ? undefined : enhanced, words].filter((part) => part !== undefined).join(" "),
    ),
    hard: kind === "refused" && isHardFailure({ command, code, status: enhanced }),
    code,
    status: inClass(kind, enhanced),
    remote,
  };
}

/** `code`: a reply code or a status, of which the first digit counts. */
function classifyReply(command: Stage, code: string | undefined): DeliveryResult["kind"] {
  // Our own credentials are wrong; they may be corrected before the next attempt.
  if (command === "auth") return "deferred";
  if (code?.startsWith("5")) return "refused";
  // Only with 2yz to the message itself does a server take responsibility for it (RFC 5321 §4.2.5).
  return command === "data" && code?.startsWith("2") ? "accepted" : "deferred";
}

/** Returns the result as a temporary failure, for a failure whose cause may be corrected. */
export function asDeferred(result: DeliveryResult): DeliveryResult {
  return { ...result, kind: "deferred", hard: false, status: inClass("deferred", result.status) };
}

const inClass = (kind: DeliveryResult["kind"], status: string | undefined): string | undefined =>
  status?.replace(/^./, String(CLASS_OF_KIND[kind]));

/**
 * Tells whether a permanent failure concerns the address, which is then suppressed: RFC 3463 status 5.1.x, except for
 * the two about the sender, and 5.2.1; a bare 5yz to RCPT, except for 552, a full mailbox (RFC 5321 §4.2.3). A status
 * of another class than the code does not count. Without a `command`, as in a report, only the status counts.
 */
export function isHardFailure({
  command,
  code,
  status,
}: Pick<Reply, "code" | "status"> & { command?: Stage }): boolean {
  // Replies to the connection, to EHLO and to MAIL are about us.
  if (command !== undefined && command !== "rcpt" && command !== "data" && command !== "dns") return false;
  if (status !== undefined) return status === "5.2.1" || /^5\.1\.(?![78]$)\d+$/.test(status);
  return command === "rcpt" && code !== undefined && code >= 500 && code < 600 && code !== 552;
}

function statusIn(lines: readonly string[]): string | undefined {
  for (const pattern of [LEADING_STATUS, MARKED_STATUS]) {
    for (const line of lines) {
      const status = pattern.exec(line)?.[1];
      if (status !== undefined) return status;
    }
  }
  return undefined;
}

function oneLine(text: string): string {
  const line = toVisibleLine(text.replace(/[\s\p{Cc}]+/gu, " "));
  return line.length <= LONGEST_REPLY ? line : `${line.slice(0, LONGEST_REPLY - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
