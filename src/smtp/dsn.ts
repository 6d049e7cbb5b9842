/**
 * The parameters of MAIL and RCPT that ask for delivery status notifications (RFC 3461). Pure.
 *
 * Invariant: a value that was read is ASCII, of bounded length, and may go into a command as it is.
 */
import { Refusal } from "./refusal.ts";

/** Notification parameters of MAIL. */
export interface MessageDsn {
  /** The part of the message that a notification of failure returns. */
  ret?: "FULL" | "HDRS";
  /** The sender's name for the message, as xtext. */
  envid?: string;
}

/** Notification parameters of RCPT. */
export interface RecipientDsn {
  /** `NEVER`, or some of SUCCESS, FAILURE and DELAY with commas between them. */
  notify?: string;
  /** The type of the address, `;`, and the address as xtext. */
  orcpt?: string;
}

/** Notification parameters of a transaction. `recipients`: by the address in RCPT TO. */
export interface TransactionDsn extends MessageDsn {
  recipients: ReadonlyMap<string, RecipientDsn>;
}

export const MAIL_PARAMETERS = ["RET", "ENVID"];
export const RCPT_PARAMETERS = ["NOTIFY", "ORCPT"];

/** Parameters of a command, by their names in upper case: xtext as it came. */
type Parameters = Readonly<Record<string, string | true>> | false | undefined;

const XTEXT = /^(?:[!-*,-<>-~]|\+[0-9A-F]{2})+$/;
const NOTIFY = /^(?:NEVER|(?:SUCCESS|FAILURE|DELAY)(?:,(?:SUCCESS|FAILURE|DELAY)){0,2})$/;
const ADDRESS_TYPE = /^[a-z0-9-]+$/i;
/** RFC 3461 §4.4 and §4.2. */
const LONGEST_ENVID = 100;
const LONGEST_ORCPT = 500;

/** Reads the parameters of MAIL. @throws Refusal badDsn */
export function readMessageDsn(parameters: Parameters): MessageDsn {
  const { RET, ENVID } = parameters || {};
  const dsn: MessageDsn = {};
  if (RET !== undefined) {
    const ret = String(RET).toUpperCase();
    if (ret !== "FULL" && ret !== "HDRS") throw bad("RET is FULL or HDRS");
    dsn.ret = ret;
  }
  if (ENVID !== undefined) dsn.envid = xtext("ENVID", ENVID, LONGEST_ENVID);
  return dsn;
}

/** Reads the parameters of RCPT. @throws Refusal badDsn */
export function readRecipientDsn(parameters: Parameters): RecipientDsn {
  const { NOTIFY: notify, ORCPT } = parameters || {};
  const dsn: RecipientDsn = {};
  if (notify !== undefined) {
    const wanted = String(notify).toUpperCase();
    if (!NOTIFY.test(wanted)) throw bad("NOTIFY is NEVER, or some of SUCCESS, FAILURE and DELAY");
    dsn.notify = [...new Set(wanted.split(","))].join(",");
  }
  if (ORCPT !== undefined) {
    const [, type = "", address = ""] = /^([^;]*);(.*)$/s.exec(String(ORCPT)) ?? [];
    if (!ADDRESS_TYPE.test(type)) throw bad("ORCPT is the type of an address, a semicolon and the address");
    // RFC 6533 §3 allows it to be written in ASCII.
    const ascii = type.toLowerCase() === "utf-8" ? address.replace(/[^!-~]/gu, escaped) : address;
    dsn.orcpt = `${type};${xtext("ORCPT", ascii, LONGEST_ORCPT - type.length - 1)}`;
  }
  return dsn;
}

/** Tells whether a recipient's outcome of this kind is told. Without NOTIFY, only failure is. */
export const isDsnWanted = ({ notify }: { notify?: string | null }, kind: "SUCCESS" | "FAILURE"): boolean =>
  (notify ?? "FAILURE").split(",").includes(kind);

/** Decodes xtext, as Latin-1. */
export const decodeXtext = (text: string): string =>
  text.replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** Writes the parameters of MAIL, each after a space. */
export const formatMailDsnParameters = ({ ret, envid }: MessageDsn): string =>
  written([
    ["RET", ret],
    ["ENVID", envid],
  ]);

/** Writes the parameters of RCPT, each after a space. */
export const formatRcptDsnParameters = ({ notify, orcpt }: RecipientDsn): string =>
  written([
    ["NOTIFY", notify],
    ["ORCPT", orcpt],
  ]);

const written = (parameters: (readonly [name: string, value: string | undefined])[]): string =>
  parameters.map(([name, value]) => (value === undefined ? "" : ` ${name}=${value}`)).join("");

function xtext(name: string, value: string | true, longest: number): string {
  if (typeof value !== "string" || !XTEXT.test(value)) throw bad(`${name} is not xtext`);
  if (value.length > longest) throw bad(`${name} is too long`);
  return value;
}

const escaped = (character: string): string => `\\x{${character.codePointAt(0)?.toString(16).toUpperCase()}}`;

const bad = (text: string): Refusal => new Refusal("badDsn", undefined, text);
