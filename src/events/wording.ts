/**
 * What came of a webhook request, in words for the receiver's admins.
 *
 * Invariant: an address that a name has is in none of them, and of what a receiver sends nothing that a terminal obeys.
 */
import { RefusedDestination } from "../net/destination.ts";
import { codeOf } from "../net/urls.ts";
import type { Answer } from "./answer.ts";
import { BROKEN } from "./connection.ts";
import type { RequestOutcome } from "./request.ts";

/** Of an answer that is over. */
export function outcomeOf(answer: Answer): RequestOutcome {
  const { fault, status } = answer;
  if (status === undefined || fault) {
    const error = wordingOf(fault ?? BROKEN);
    return status === undefined ? { ok: false, error, ms: 0 } : { ok: false, status, error, ms: 0 };
  }
  const response = startOf(answer);
  if (status >= 200 && status < 300) return { ok: true, status, response, ms: 0 };
  return { ok: false, status, response, error: describeStatus(status), ms: 0 };
}

/** The body up to what is kept, less a last character that is cut off. */
function startOf({ body, from, size, isCut }: Answer): string {
  if (isCut) return readable(new TextDecoder().decode(body.subarray(from, from + size), { stream: true }));
  const text = body.toString("utf8", from, from + size);
  return readable(text.startsWith("\ufeff") ? text.slice(1) : text);
}

/** Control characters, which a terminal would obey, are replaced. */
const readable = (text: string): string => text.replace(/[^\P{Cc}\t\r\n]/gu, "\ufffd");

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed before the answer was complete",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  EPROTO: "the other side does not speak TLS as we do",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
};

/** Of a request that was not sent. */
export function failureBy(error: Error): RequestOutcome {
  const outcome: RequestOutcome = { ok: false, error: describeError(error), ms: 0 };
  if (error instanceof RefusedDestination) outcome.refused = true;
  return outcome;
}

/** Never the message of an error of Bun's: it names the address, which is none of the receiver's admins' business. */
function describeError(error: Error): string {
  const code = codeOf(error);
  return error instanceof RefusedDestination || code === undefined ? error.message : wordingOf(code);
}

/** What a code of node's, or a fault, says to people. */
export function wordingOf(code: string): string {
  if (REASONS[code]) return REASONS[code];
  if (/CERT|ISSUER|PURPOSE|VERIFY/.test(code)) return `the certificate cannot be trusted (${code})`;
  return /HTTP|Content|Headers|Upgrade/.test(code) ? `the answer is not valid HTTP (${code})` : `no answer (${code})`;
}

const describeStatus = (status: number): string =>
  status >= 300 && status < 400 ? `answered ${status}, and redirects are not followed` : `answered ${status}`;
