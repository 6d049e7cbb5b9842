/**
 * Calls of the server's operations: JSON in both directions, refusals in words for people. The page's code takes only
 * the types of operations: method, path, input and response of each call are checked against its operation.
 */
import type { AnswerOf } from "../../operations/operation.ts";
import { doubt, isFromProxy } from "./connection.ts";
import { confirmation, nextSession, type Proof } from "./session.ts";

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

export const OFFLINE = "The server is not responding. Check your connection, then try again.";

/**
 * `leaving`: the page is closing. Browsers send such a request after the page is gone, up to some 64 kB of all
 * together.
 */
export interface Leaving {
  leaving: boolean;
}
const MOST_LEAVING = 60_000;

/** Paths whose 401 goes to the caller: they ask if somebody is signed in, sign in, and sign out. */
const OUTSIDE_SESSION = new Set(["/me", "/sign-in", "/sign-out"]);

/**
 * Makes a request. If the session has ended, or the server wants a proof of identity, the app asks the person for it
 * and repeats the request. @throws Refusal
 */
async function ask<T>(method: string, path: string, body?: unknown, how?: Leaving): Promise<T> {
  for (let times = 1; ; times++) {
    try {
      return await askOnce<T>(method, path, body, how);
    } catch (error) {
      if (!(error instanceof Refusal) || !(await mayRepeat(error, path, times))) throw error;
    }
  }
}

async function mayRepeat({ status, proof }: Refusal, path: string, times: number): Promise<boolean> {
  if (proof) return confirmation(proof);
  if (status !== 401 || OUTSIDE_SESSION.has(path)) return false;
  // Once at once: a confirmation may have replaced the cookie while the request was under way.
  return times === 1 || nextSession();
}

async function askOnce<T>(method: string, path: string, body?: unknown, { leaving } = { leaving: false }): Promise<T> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  const response = await fetch(`/app${path}`, {
    method,
    keepalive: leaving && content !== undefined && content.length < MOST_LEAVING,
    ...(content !== undefined && { body: content, headers: { "content-type": "application/json" } }),
  }).catch(() => undefined);
  if (!response || isFromProxy(response)) {
    void doubt();
    throw new Refusal(0, OFFLINE);
  }
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  const { error = "Something went wrong on the server. Try again.", confirm } = readRefusal(text);
  throw new Refusal(response.status, error, confirm);
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

/** The part of an operation's type that a call needs. */
interface Callable {
  audience: string;
  method: string;
  path: string;
  types?: { input: { params: object; query: object; body: unknown }; answer: unknown };
}

/** The path below /app. Administration has /settings before it. */
type PathOf<O extends Callable> = O["audience"] extends "admin" | "operator" ? `/settings${O["path"]}` : O["path"];

type InputOf<O extends Callable> = NonNullable<O["types"]>["input"];
/** Optional fields may be undefined: requests leave them out. */
type OrUndefined<T> = { [N in keyof T]: object extends Pick<T, N> ? T[N] | undefined : T[N] };
/** The query that an operation takes. */
export type QueryOf<O extends Callable> = OrUndefined<InputOf<O>["query"]>;
/** The body that an operation takes. */
export type BodyOf<O extends Callable> = OrUndefined<InputOf<O>["body"]>;
/** A field of the input, which is optional where nothing in its value is required. */
type Field<Name extends string, Value> =
  Partial<Value> extends Value ? { [N in Name]?: Value } : { [N in Name]: Value };
/** The input of a call. */
type Given<O extends Callable> = Field<"params", InputOf<O>["params"]> &
  Field<"query", QueryOf<O>> &
  Field<"body", BodyOf<O>>;

/** The same without the types of an operation. */
interface AnyInput {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
}

function urlOf(path: string, { params = {}, query = {} }: AnyInput): string {
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? filled : `${filled}?${text}`;
}

/** URL of a GET operation that the browser requests by itself, such as a download. */
export const urlTo = <O extends Callable & { method: "GET" }>(path: PathOf<O>, given: Given<O>): string =>
  `/app${urlOf(path, given as AnyInput)}`;

/**
 * Calls an operation, as in `call<typeof getDomain>("GET", "/settings/domains/:id", { params: { id } })`. @throws
 * Refusal
 */
export function call<O extends Callable>(
  method: O["method"],
  path: PathOf<O>,
  ...[given, how]: Partial<Given<O>> extends Given<O>
    ? [given?: Given<O>, how?: Leaving]
    : [given: Given<O>, how?: Leaving]
): Promise<AnswerOf<O>> {
  const input = (given ?? {}) as AnyInput;
  const body = method === "POST" || method === "PUT" || method === "PATCH" ? (input.body ?? {}) : undefined;
  return ask(method, urlOf(path, input), body, how);
}

/** Gets all pages of a list. `name`: the list's field in the response. @throws Refusal */
export async function callAll<
  O extends Callable & { method: "GET" },
  Name extends keyof AnswerOf<O> = Exclude<keyof AnswerOf<O>, "nextCursor">,
>(path: PathOf<O>, name: Name): Promise<AnswerOf<O>[Name]> {
  const all: unknown[] = [];
  let cursor: unknown;
  do {
    const page = await ask<Record<string, unknown>>("GET", urlOf(path, { query: { limit: MOST_OF_A_PAGE, cursor } }));
    all.push(...(page[name as string] as unknown[]));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return all as AnswerOf<O>[Name];
}

/** Items that a page of a list may have. */
export const MOST_OF_A_PAGE = 100;
