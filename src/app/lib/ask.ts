/** Requests to the server under /app: JSON in both directions. A refusal is in words for people. */
import { confirmation, type Proof } from "./confirming.ts";
import { nextSession } from "./session.ts";

export class Refusal extends Error {
  override readonly name = "Refusal";
  /** HTTP status; 0 without a response. */
  readonly status: number;
  /** The proof of identity with which the server would accept the request. */
  readonly proof: Proof | undefined;

  constructor(status: number, message: string, proof?: Proof) {
    super(message);
    this.status = status;
    this.proof = proof;
  }
}

export const OFFLINE = "The server does not answer. Check your connection, then try again.";

/** `leaving`: the page is closing. Browsers send such a request after the page is gone, up to some 64 kB of all together. */
export interface Leaving {
  leaving: boolean;
}
const MOST_LEAVING = 60_000;

/** Requests whose 401 goes to the caller: they ask who is signed in, or sign in. */
const ASKS_WHO = new Set(["/me", "/sign-in"]);

/**
 * Makes a request. If the session has ended, or the server wants a proof of identity, the app asks the person for it and
 * repeats the request. @throws Refusal
 */
export async function ask<T>(method: string, path: string, body?: unknown, how?: Leaving): Promise<T> {
  for (let times = 1; ; times++) {
    try {
      return await askOnce<T>(method, path, body, how);
    } catch (error) {
      if (!(error instanceof Refusal) || !(await isLifted(error, path, times))) throw error;
    }
  }
}

async function isLifted({ status, proof }: Refusal, path: string, times: number): Promise<boolean> {
  if (proof) return confirmation(proof);
  if (status !== 401 || ASKS_WHO.has(path)) return false;
  // A confirmation replaces the cookie; a request that was under way with the former one is repeated with the new.
  return times === 1 || nextSession();
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
  const { error = "Something failed on the server. Try again.", confirm } = readRefusal(text);
  throw new Refusal(answer.status, error, confirm);
}

function readRefusal(text: string): { error?: string; confirm?: Proof } {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** The text of a refusal. */
export const refusalIn = (text: string): string | undefined => readRefusal(text).error;

/** Most items of one page of a list. */
const PAGE = 100;

/** Gets one page of a list. `name`: the list's field in the response. */
export async function askPage<T>(
  path: string,
  name: string,
  cursor?: string,
): Promise<{ items: T[]; next: string | null }> {
  const more = cursor === undefined ? "" : `&cursor=${cursor}`;
  const answer = await ask<Record<string, unknown>>("GET", `${path}?limit=${PAGE}${more}`);
  return { items: answer[name] as T[], next: answer.nextCursor as string | null };
}

/** Gets all pages of a list. */
export async function askAll<T>(path: string, name: string): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const { items, next } = await askPage<T>(path, name, cursor);
    all.push(...items);
    cursor = next ?? undefined;
  } while (cursor !== undefined);
  return all;
}

/** An id as a segment of a path. */
export const idOf = (id: string): string => encodeURIComponent(id);
