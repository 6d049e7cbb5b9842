/**
 * The client of the server's operations: JSON in both directions, refusals in words for people. The page's code takes
 * the types of operations and has their names, methods and paths, which the bundler puts in.
 */
import { appRequests } from "../../operations/manifest.macro.ts" with { type: "macro" };
import type { AppRequests } from "../../operations/manifest.macro.ts";
import type { AnswerOf, AnyDownload } from "../../operations/operation.ts";
import type { AppOperations } from "../../operations/operations.ts";
import { isProxyFailure, waitUntilServerAnswers } from "./server-away.ts";
import { type Proof, waitForIdentityProof, waitForSignIn } from "./waiting-requests.ts";

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

const REQUESTS = appRequests();
type Name = keyof AppRequests;

/** Operations whose 401 goes to the caller: they ask if somebody is signed in, sign in, and sign out. */
const OUTSIDE_SESSION = new Set<Name>(["getMe", "signIn", "signOut"]);

type Given = Record<string, unknown>;

/**
 * Makes a request. If the session has ended, or the server wants a proof of identity, the app asks the person for it
 * and repeats the request. @throws Refusal
 */
async function ask(name: Name, given?: Given, how?: Leaving): Promise<unknown> {
  for (let times = 1; ; times++) {
    try {
      return await askOnce(name, given, how);
    } catch (error) {
      if (!(error instanceof Refusal) || !(await mayRepeat(error, name, times))) throw error;
    }
  }
}

async function mayRepeat({ status, proof }: Refusal, name: Name, times: number): Promise<boolean> {
  if (proof) return waitForIdentityProof(proof);
  if (status !== 401 || OUTSIDE_SESSION.has(name)) return false;
  // Once at once: a confirmation may have replaced the cookie while the request was under way.
  return times === 1 || waitForSignIn();
}

async function askOnce(name: Name, given?: Given, { leaving } = { leaving: false }): Promise<unknown> {
  const { method, path, rest } = fill(name, given);
  const content = method === "GET" || method === "DELETE" ? undefined : JSON.stringify(rest);
  const response = await fetch(content === undefined ? withQuery(path, rest) : path, {
    method,
    keepalive: leaving && content !== undefined && content.length < MOST_LEAVING,
    ...(content !== undefined && { body: content, headers: { "content-type": "application/json" } }),
  }).catch(() => undefined);
  if (!response || isProxyFailure(response)) {
    void waitUntilServerAnswers();
    throw new Refusal(0, OFFLINE);
  }
  const text = await response.text();
  if (response.ok) return text === "" ? undefined : JSON.parse(text);
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

/** Puts the parameters of an input into the path. `rest`: what is for the query or the body. */
function fill(name: Name, given: Given = {}) {
  const [method, path] = REQUESTS[name];
  const rest = { ...given };
  const filled = path.replaceAll(/:(\w+)/g, (_, parameter: string) => {
    const value = String(rest[parameter]);
    delete rest[parameter];
    return encodeURIComponent(value);
  });
  return { method, path: filled, rest };
}

function withQuery(path: string, query: Given): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Optional fields may be undefined: requests leave them out. */
type OrUndefined<T> = { [N in keyof T]: object extends Pick<T, N> ? T[N] | undefined : T[N] };
/** Input of an operation: its parameters, and the fields of its query or its body. */
export type Input<N extends Name> = AppRequests[N] extends {
  types?: { input: { params: infer Params; query: infer Query; body: infer Body } };
}
  ? OrUndefined<Params & Query & Body>
  : never;
/** Answer of an operation. */
export type Answer<N extends Name> = AnswerOf<AppRequests[N]>;

/** The arguments of a call. An input may be left out if nothing in it is required. */
type Arguments<T> = keyof T extends never
  ? [given?: undefined, how?: Leaving]
  : object extends T
    ? [given?: T, how?: Leaving]
    : [given: T, how?: Leaving];

/** Calls operations, as in `api.getThread({ id })`. Each function rejects with a Refusal. */
export const api = Object.fromEntries(
  Object.keys(REQUESTS).map((name) => [name, (given?: Given, how?: Leaving) => ask(name as Name, given, how)]),
) as object as {
  readonly [N in keyof AppOperations]: (...call: Arguments<Input<N>>) => Promise<Answer<N>>;
};

/** Requests whose answer is no JSON. */
type Link = { [N in Name]: Answer<N> extends AnyDownload | Response ? N : never }[Name];

/** URL of a request that the browser makes by itself, such as a download. */
export function urlTo<N extends Link>(name: N, given: Input<N>): string {
  const { path, rest } = fill(name, given);
  return withQuery(path, rest);
}

/** Items that a page of a list may have. */
export const MOST_OF_A_PAGE = 100;

/** Gets all pages of a list. `name`: the list's field in the answer. @throws Refusal */
export async function fetchAllPages<Item, Field extends string>(
  list: (given: {
    limit: number;
    cursor?: string | undefined;
  }) => Promise<{ [N in Field]: Item[] } & { nextCursor: string | null }>,
  name: Field,
): Promise<Item[]> {
  const all: Item[] = [];
  let cursor: string | undefined;
  do {
    const page = await list({ limit: MOST_OF_A_PAGE, cursor });
    all.push(...page[name]);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}
