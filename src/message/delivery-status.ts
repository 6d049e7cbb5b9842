/**
 * Reads the fields of the machine-readable parts, message/delivery-status (RFC 3464) and message/feedback-report (RFC
 * 5965), and what the former say about each recipient.
 */
import { normalizeAddress, parseAddressList } from "./address.ts";

export type ReportedAction = "failed" | "delayed" | "delivered" | "relayed" | "expanded";

export interface ReportedRecipient {
  /** The address at which delivery ended, after aliases and forwarding. */
  recipient: string;
  /** The address that the sender used, if the report gives it and it differs. */
  original?: string;
  action: ReportedAction;
  /** RFC 3463, as `5.1.1`. */
  status?: string;
  /** SMTP reply code in the diagnostic. */
  code?: number;
  /** The server's words on one line, at most 500 characters. */
  diagnostic?: string;
  /** The notice says that the server refused the address in reply to RCPT, without a status of its own. */
  bareAtRcpt?: true;
}

/** Values by lower-case field name, unfolded; repeated fields in order. */
export type FieldGroup = Map<string, string[]>;

/** Most groups read from one report; each recipient has one. */
const MAX_GROUPS = 2_000;

/** The groups of fields in a text, separated by empty lines. A line that is not a field ends a group. */
export function fieldGroupsIn(text: string): FieldGroup[] {
  const groups: FieldGroup[] = [];
  let group: FieldGroup = new Map();
  let values: string[] = [];
  const close = () => {
    if (group.size > 0) groups.push(group);
    group = new Map();
  };
  for (const line of text.split(/\r?\n/)) {
    if (groups.length >= MAX_GROUPS) break;
    const [, name, value = ""] = /^([a-z][a-z0-9-]{1,60})[ \t]*:(.*)$/i.exec(line) ?? [];
    if (name !== undefined) {
      const key = name.toLowerCase();
      // Each recipient has one such field: a second one begins a new group although the empty line is missing.
      if (key === "final-recipient" && group.has(key)) close();
      values = group.get(key) ?? [];
      group.set(key, values);
      values.push(value.trim());
    } else if (/^[ \t]+\S/.test(line) && group.size > 0) {
      values.push(`${values.pop() ?? ""}${line.trimEnd()}`);
    } else {
      close();
    }
  }
  close();
  return groups;
}

/** What a group of fields says about a recipient; undefined if it names none. */
export function recipientOf(group: FieldGroup): ReportedRecipient | undefined {
  const final = addressIn(group.get("final-recipient")?.[0] ?? "");
  const original = addressIn(group.get("original-recipient")?.[0] ?? "");
  const recipient = final ?? original;
  if (recipient === undefined) return undefined;
  const diagnostic = diagnosticOf((group.get("diagnostic-code")?.[0] ?? "").replace(/^[a-z0-9.-]{1,40}\s*;/i, ""));
  const said = replyCodesIn(diagnostic ?? "");
  const stated = replyCodesIn(group.get("status")?.[0] ?? "").status;
  // The refusing server's own words take precedence over the reporting server's summary of them.
  const status = stated === undefined || said.status?.[0] === stated[0] ? (said.status ?? stated) : stated;
  return {
    recipient,
    ...(original === undefined || normalizeAddress(original) === normalizeAddress(recipient) ? {} : { original }),
    action: actionOf(group.get("action")?.[0] ?? "", status),
    ...(status === undefined ? {} : { status }),
    ...(said.code === undefined ? {} : { code: said.code }),
    ...(diagnostic === undefined ? {} : { diagnostic }),
  };
}

const ACTIONS: Record<string, ReportedAction> = {
  failed: "failed",
  delayed: "delayed",
  delivered: "delivered",
  deliverable: "delivered",
  relayed: "relayed",
  expanded: "expanded",
};

/** RFC 3464 §2.3.3. If the field is missing, the class of the status decides. */
function actionOf(value: string, status: string | undefined): ReportedAction {
  const action = ACTIONS[/^[a-z]+/i.exec(value)?.[0]?.toLowerCase() ?? ""];
  if (action !== undefined) return action;
  return status?.startsWith("2") ? "delivered" : status?.startsWith("4") ? "delayed" : "failed";
}

const MAX_DIAGNOSTIC = 500;

/** A reply on one line, cut to the length that is stored; undefined for an empty one. */
export function diagnosticOf(text: string): string | undefined {
  const line = text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, MAX_DIAGNOSTIC);
  return line === "" ? undefined : line.trimEnd().toWellFormed();
}

/**
 * The address in the value of a field such as `rfc822; a@b.example`, without its type; a utf-8 one without its escapes
 * (RFC 6533 §3). Undefined unless it is an address that mail can be sent to.
 */
export function addressIn(value: string): string | undefined {
  const typed = /^\s*[a-z0-9-]{1,40}\s*;(.*)$/is.exec(value)?.[1] ?? value;
  const unescaped = typed.replace(/\\x\{([0-9a-f]{1,6})\}/gi, (escaped, hex: string) => {
    const point = Number.parseInt(hex, 16);
    return point <= 0x10ffff ? String.fromCodePoint(point) : escaped;
  });
  return parseAddressList(unescaped)
    .map(({ email }) => email)
    .find((email) => normalizeAddress(email) !== undefined);
}

/* Finds reply codes (RFC 5321 §4.2) and enhanced status codes (RFC 3463) anywhere in the text of a server. Linear. */

export interface ReplyCodes {
  /** As `550`. */
  code?: number;
  /** As `5.1.1`. */
  status?: string;
}

/** Both together are unmistakable: `550 5.1.1`, `550-5.1.1`, `550 #5.1.1`, `550: 5.1.1`. */
const BOTH = /(?<![\d.])([245]\d\d)[\s:-]{0,3}[([]?#?([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;
/** A code alone counts only at the beginning of a line, or after a mark or word that announces it. */
const CODE =
  /(?:^[ \t]{0,40}|[:;<>'"([={]\s{0,2}|(?:said|error|code|reply|replied|response|returned|with|status)\s)([45]\d\d)(?=[\s:-]{1,3}\S|['"\])},]|[ \t]{0,40}$)/im;
const STATUS = /(?<![\w.])([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;

/** The first codes in `text`; both, if two belong together. */
export function replyCodesIn(text: string): ReplyCodes {
  const both = BOTH.exec(text);
  if (both !== null && both[1]?.[0] === both[2]?.[0]) return { code: Number(both[1]), status: both[2] as string };
  const code = CODE.exec(text)?.[1];
  const status = STATUS.exec(text)?.[1];
  return { ...(code === undefined ? {} : { code: Number(code) }), ...(status === undefined ? {} : { status }) };
}

/** True if a status says only its class, as `5.0.0`, or is absent. */
export const isUnspecific = (status: string | undefined): boolean => status === undefined || /\.0\.0+$/.test(status);
