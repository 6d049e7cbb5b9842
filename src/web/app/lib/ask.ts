/** Asking the server, under /app: JSON there and back, and a refusal in words for people. */
import { nextSession } from "./session.ts";

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

export const OFFLINE = "The server does not answer. Check your connection, then try again.";

/** What a page says while it is closed: browsers send it after the page is gone, up to some 64 kB of all such requests. */
export interface Leaving {
  leaving: boolean;
}
const MOST_LEAVING = 60_000;

/** What is asked to learn whether somebody is signed in, and to sign in: its refusal is the answer. */
const ASKS_WHO = new Set(["/me", "/sign-in"]);

/** Who was signed in when the page was opened, and is no more, is asked to sign in again meanwhile. @throws Refusal */
export async function ask<T>(method: string, path: string, body?: unknown, how?: Leaving): Promise<T> {
  for (;;) {
    try {
      return await askOnce<T>(method, path, body, how);
    } catch (error) {
      const signedOut = error instanceof Refusal && error.status === 401 && !ASKS_WHO.has(path);
      if (!signedOut || !(await nextSession())) throw error;
    }
  }
}

async function askOnce<T>(method: string, path: string, body?: unknown, { leaving } = { leaving: false }): Promise<T> {
  const answer = await fetch(`/app${path}`, {
    method,
    keepalive: leaving && JSON.stringify(body).length < MOST_LEAVING,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  }).catch(() => {
    throw new Refusal(0, OFFLINE);
  });
  const text = await answer.text();
  if (answer.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  throw new Refusal(answer.status, refusalIn(text) ?? "Something failed on the server. Try again.");
}

/** The words of a refusal. */
export function refusalIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

/** For a path. */
export const idOf = (id: string): string => encodeURIComponent(id);
