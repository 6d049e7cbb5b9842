/** Asking the server, under /app: JSON there and back, and a refusal in words for people. */
import { confirmation, type Proof } from "./confirming.ts";
import { nextSession } from "./session.ts";

/** A refusal, in words for people. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  /** HTTP status; 0 when no answer came. */
  readonly status: number;
  /** What would lift it. */
  readonly proof: Proof | undefined;

  constructor(status: number, message: string, proof?: Proof) {
    super(message);
    this.status = status;
    this.proof = proof;
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

/**
 * Who was signed in when the page was opened, and is no more, is asked to sign in again meanwhile; whose word for it is wanted,
 * for that. @throws Refusal
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
  // Confirming gives the browser another cookie: what was on its way with the one before is asked again with that.
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

/** The words of a refusal. */
export const refusalIn = (text: string): string | undefined => readRefusal(text).error;

/** Most items that a page of a list has. */
const PAGE = 100;

/** One page of a list that comes in pages; `name`: of the list in the answer. */
export async function askPage<T>(
  path: string,
  name: string,
  cursor?: string,
): Promise<{ items: T[]; next: string | null }> {
  const more = cursor === undefined ? "" : `&cursor=${cursor}`;
  const answer = await ask<Record<string, unknown>>("GET", `${path}?limit=${PAGE}${more}`);
  return { items: answer[name] as T[], next: answer.nextCursor as string | null };
}

/** All items of a list that comes in pages. */
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

/** For a path. */
export const idOf = (id: string): string => encodeURIComponent(id);
