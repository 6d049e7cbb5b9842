/**
 * One HTTP request to a receiver of webhooks: a POST through http-client.ts, and what came of it.
 *
 * Invariant: the time limit covers everything, from the question to DNS to the last byte of the answer, and whatever a
 * receiver sends, 4 KiB of it are kept.
 */
import { RefusedDestination } from "../destination.ts";
import { codeOf, type HttpClientParts, openHttpClient } from "../http-client.ts";

export interface WebhookRequest {
  url: string;
  /** Beside those of HTTP itself; Content-Type among them. */
  headers: Readonly<Record<string, string>>;
  body: string;
  timeoutMs: number;
  /** Which attempt it is, from 1: each begins with another of the host's addresses. */
  attempt: number;
}

export interface RequestOutcome {
  /** Answered 2xx, wholly and in time (spec: Delivery semantics 1). */
  ok: boolean;
  /** Of the answer, if one began. */
  status?: number;
  /** The first 4 KiB of the answer's body. */
  response?: string;
  /** What went wrong, for people. */
  error?: string;
  /** The destination is not connected to: trying again does not help. */
  refused?: true;
  /** How long it took. */
  ms: number;
}

export interface Requests {
  /** Never rejects. */
  post(request: WebhookRequest): Promise<RequestOutcome>;
  /** Ends requests under way, and every connection. */
  close(): void;
}

export type RequestParts = HttpClientParts;

const KEPT_BYTES = 4096;

export function openRequests(parts: RequestParts): Requests {
  const { runtime } = parts;
  const client = openHttpClient(parts);

  return {
    async post({ url, headers, body, timeoutMs, attempt }) {
      const begin = runtime.now();
      const outcome: RequestOutcome = { ok: false, ms: 0 };
      try {
        await client.within(timeoutMs, async (signal) => {
          const response = await client.send({ method: "POST", url, headers, body, attempt }, signal);
          outcome.status = response.status;
          outcome.response = await startOf(response);
          outcome.ok = response.ok;
          if (!response.ok) outcome.error = describeStatus(response.status);
        });
      } catch (error) {
        outcome.error = describeError(error as Error);
        if (error instanceof RefusedDestination) outcome.refused = true;
      }
      outcome.ms = runtime.now() - begin;
      return outcome;
    },
    close: client.close,
  };
}

/** The body up to what is kept; the connection is closed under the rest. */
async function startOf(response: Response): Promise<string> {
  const { headers } = response;
  // Nearly every answer, and cheaper than a stream of it; a length beside chunks says nothing (RFC 9112 §6.3).
  if (!headers.has("transfer-encoding") && Number(headers.get("content-length") ?? Infinity) <= KEPT_BYTES) {
    return readable(await response.text());
  }
  const kept = new Uint8Array(KEPT_BYTES);
  let size = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    kept.set(read.value.subarray(0, KEPT_BYTES - size), size);
    size += read.value.length;
    if (size > KEPT_BYTES) {
      await reader?.cancel();
      break;
    }
  }
  // Less a last character that is cut off.
  return readable(new TextDecoder().decode(kept.subarray(0, Math.min(size, KEPT_BYTES)), { stream: true }));
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

/** Never the message of an error of Bun's: it names the address, which is none of the receiver's admins' business. */
function describeError(error: Error): string {
  const code = codeOf(error);
  if (error instanceof RefusedDestination || code === undefined) return error.message;
  if (REASONS[code]) return REASONS[code];
  if (/CERT|ISSUER|VERIFY/.test(code)) return `the certificate cannot be trusted (${code})`;
  return /HTTP|Content|Headers|Upgrade/.test(code) ? `the answer is not valid HTTP (${code})` : `no answer (${code})`;
}

const describeStatus = (status: number): string =>
  status >= 300 && status < 400 ? `answered ${status}, and redirects are not followed` : `answered ${status}`;
