/** Refusals (rules: Errors), each with what to do next: a model that knows it does not try at random. */
import type { ErrorCode } from "../../base/errors.ts";
import { drawNonce, fence, fencedLine, NOTICE } from "./fence.ts";
import { type Refusal, type RenderContext, type Rendered, renderedOf } from "./rendering.ts";

const NEXT: Record<ErrorCode, string> = {
  bad_request: "Correct the argument that the message names, then call again. Start a list over without cursor.",
  unauthorized: "Stop: the API key is missing, wrong or revoked. Ask your user for another.",
  missing_scope: "Stop: the API key lacks the scope. Ask your user for a key that has it.",
  forbidden: "Do not retry: this mailbox is shared without that right. Use another mailbox, or ask your user.",
  not_found:
    "Check the id: take it from a list of the same session. What is not reachable with this key is not found either.",
  conflict: "Read the current state with get_thread, then decide again.",
  idempotency_in_progress: "Wait a few seconds, then call again with the same idempotencyKey and arguments.",
  idempotency_key_reused:
    "Take a new idempotencyKey for a new message; repeat an old one only with the same arguments.",
  payload_too_large: "Shorten text and html to at most 1 MB together, then call again.",
  unprocessable:
    "Change what the message names (sender, recipient or number of recipients); the same again fails again.",
  locked: "Do not retry: sending is paused here. Tell your user why; an admin can resume it.",
  rate_limited: "Wait, then call again with the same arguments.",
  insufficient_storage: "Do not retry: the mailbox is full. Ask your user to make room.",
  server_error: "Wait a few seconds, then call again; when sending, with the same idempotencyKey.",
  upstream_failed: "Nothing was sent. Call again in some minutes; when sending, with the same idempotencyKey.",
};

const LONGEST_MESSAGE = 1_000;

/** Codes whose message may quote mail: a reply is refused for the address that its Reply-To names. */
const QUOTES_MAIL = new Set<ErrorCode>(["unprocessable"]);

/** The message stands on one line, and inside a fence where it may quote mail. */
export function renderError({ code, message, retryAfter }: Refusal, { nonce }: Pick<RenderContext, "nonce">): Rendered {
  const error = fencedLine(message, LONGEST_MESSAGE);
  const seconds = retryAfter === undefined ? undefined : Math.ceil(retryAfter);
  const next = seconds === undefined ? NEXT[code] : `Wait ${seconds} seconds. ${NEXT[code]}`;
  const quotes = QUOTES_MAIL.has(code);
  const shown = quotes ? `\n${fence(drawNonce(nonce, error), error)}` : ` ${error}`;
  return renderedOf(`Error ${code}:${shown}\nNext: ${next}`, {
    ...(quotes && { notice: NOTICE }),
    code,
    error,
    next,
    retryAfter: seconds,
  });
}
