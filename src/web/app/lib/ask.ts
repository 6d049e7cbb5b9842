/** Asking the server, under /app: JSON there and back, and a refusal in words for people. */

/** A refusal, in words for people. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  /** HTTP status; 0 when no answer came. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const OFFLINE = "The server does not answer. Check your connection, then try again.";

/** @throws Refusal */
export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`/app${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  }).catch(() => {
    throw new Refusal(0, OFFLINE);
  });
  const text = await answer.text();
  if (answer.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  throw new Refusal(answer.status, refusalIn(text) ?? "Something failed on the server. Try again.");
}

function refusalIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

/** For a path. */
export const idOf = (id: string): string => encodeURIComponent(id);
