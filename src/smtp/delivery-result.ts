/**
 * What an attempt to deliver came to for one recipient, read from what the remote said (RFC 5321 §4.2, RFC 3463), and
 * whether it tells something about the address itself. Pure.
 *
 * Invariant: the reply code decides between now, later and never; the enhanced status code only says why. Only what is
 * refused is ever hard.
 */

export interface Verdict {
  kind: "accepted" | "deferred" | "refused";
  /** What the remote answered, or why it could not be asked: one line of at most 500 characters, for people. */
  reply: string;
  /** The failure is permanent and concerns the address (rules: Hard failure). */
  hard: boolean;
  /** Reply code, where there was a reply. */
  code?: number | undefined;
  /** Enhanced status code, its class in step with `kind`. */
  status?: string | undefined;
  /** Name of the host that answered. */
  remote?: string | undefined;
}

/** What was asked when the answer came, or the attempt ended. */
export type Stage = "dns" | "connect" | "ehlo" | "auth" | "mail" | "rcpt" | "data";

export interface Answer {
  command: Stage;
  /** None when the remote said nothing: the class of `status` decides then, and without it it is temporary. */
  code?: number | undefined;
  /** Where it is known beforehand; else it is looked for in the text. */
  status?: string | undefined;
  /** The reply as received, codes and several lines included, or what happened instead. */
  text: string;
  remote?: string | undefined;
}

/** No transaction could be begun with the remote: nothing was sent, and the verdict is that of every recipient. */
export class DeliveryFailure extends Error {
  override readonly name = "DeliveryFailure";
  readonly verdict: Verdict;

  constructor(verdict: Verdict) {
    super(verdict.reply);
    this.verdict = verdict;
  }
}

const LONGEST_REPLY = 500;
const CLASS_OF_KIND = { accepted: 2, deferred: 4, refused: 5 } as const;
/** An address such as 5.1.1.2 is none, and neither is a version. */
const LEADING_STATUS = /^\(?#?([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)\)?:?\s*/;
/** As qmail and its kin write it: `sorry, no mailbox here by that name (#5.1.1)`. */
const MARKED_STATUS = /#([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/;

export function verdictOf({ command, code, status, text, remote }: Answer): Verdict {
  const lines = text.split(/\r?\n/).map((line) => (code === undefined ? line : line.replace(/^\d{3}(?:[ -]|$)/, "")));
  const told = status ?? (code === undefined ? undefined : statusIn(lines));
  const kind = kindOf(command, code === undefined ? told : String(code));
  const words = lines.map((line) => line.replace(LEADING_STATUS, "")).join(" ");
  return {
    kind,
    reply: oneLine([code, code === undefined ? undefined : told, words].filter((part) => part !== undefined).join(" ")),
    hard: kind === "refused" && isHard({ command, code, status: told }),
    code,
    status: inClass(kind, told),
    remote,
  };
}

/** `answer`: a reply code or a status, of which the first digit counts. */
function kindOf(command: Stage, answer: string | undefined): Verdict["kind"] {
  // Our own credentials are wrong, which the next attempt may find put right.
  if (command === "auth") return "deferred";
  if (answer?.startsWith("5")) return "refused";
  // 2yz to anything but the message takes no responsibility for it (RFC 5321 §4.2.5).
  return command === "data" && answer?.startsWith("2") ? "accepted" : "deferred";
}

/** The same for later: it may be put right. */
export function asDeferred(verdict: Verdict): Verdict {
  return { ...verdict, kind: "deferred", hard: false, status: inClass("deferred", verdict.status) };
}

const inClass = (kind: Verdict["kind"], status: string | undefined): string | undefined =>
  status?.replace(/^./, String(CLASS_OF_KIND[kind]));

/**
 * Whether a permanent failure concerns the address, so that it is to be suppressed: RFC 3463 status 5.1.x, but for the
 * two about the sender, and 5.2.1; a bare 5yz to RCPT, but for 552, which is a full mailbox (RFC 5321 §4.2.3). A status
 * of another class than the code is no such word. Without a `command`, as in a report, only the status counts.
 */
export function isHard({ command, code, status }: Pick<Answer, "code" | "status"> & { command?: Stage }): boolean {
  // Answers to a greeting, to EHLO or to MAIL are about us.
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
  const line = text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .toWellFormed();
  return line.length <= LONGEST_REPLY ? line : `${line.slice(0, LONGEST_REPLY - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
