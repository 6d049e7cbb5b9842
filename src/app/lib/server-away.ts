/**
 * Whether the server answers. While it is away, queries wait, changes of mail wait in their order, and other acts are
 * refused where they were begun. The page asks until the server answers, and then everything goes on.
 */
import { onlineManager } from "@tanstack/react-query";
import { createSharedValue } from "./cell.ts";

/** Wait before the server is asked again, ms. */
const ASK_AGAIN_MS = 2_000;

const away = createSharedValue(false);
/** A hook: true while the server does not answer. */
export const useServerAway = away.use;
export const isServerAway = away.get;

const returns = new Set<() => void>();
/** Calls `listener` each time the server is back; returns a function that ends that. */
export function onServerReturn(listener: () => void): () => void {
  returns.add(listener);
  return () => void returns.delete(listener);
}

// Queries that cannot reach the server pause, and go on when it is back.
onlineManager.setEventListener(() => () => {});

function setAway(next: boolean): void {
  if (next === away.get()) return;
  away.set(next);
  onlineManager.setOnline(!next);
  if (!next) for (const listener of returns) listener();
}

let asking: Promise<boolean> | undefined;

/**
 * Call it when a request or a connection failed. Resolves once the server answers, with true if it was away until then.
 */
export function waitUntilServerAnswers(): Promise<boolean> {
  asking ??= askUntilAnswered().finally(() => {
    asking = undefined;
  });
  return asking;
}

async function askUntilAnswered(): Promise<boolean> {
  if (await answers()) return false;
  setAway(true);
  do await soon();
  while (!(await answers()));
  setAway(false);
  return true;
}

const answers = async (): Promise<boolean> => {
  const response = await fetch("/healthz", { cache: "no-store" }).catch(() => undefined);
  return response !== undefined && !isProxyFailure(response);
};

/** True for the response of a proxy that cannot reach the server: the server's own errors are JSON. */
export const isProxyFailure = ({ status, headers }: Response): boolean =>
  status >= 502 && status <= 504 && headers.get("content-type")?.startsWith("application/json") !== true;

/** Resolves after a while, or as soon as the browser has a network again. */
const soon = (): Promise<void> =>
  new Promise((resolve) => {
    function end(): void {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    }
    const timer = setTimeout(end, ASK_AGAIN_MS);
    addEventListener("online", end);
  });

addEventListener("offline", () => void waitUntilServerAnswers());

const waiting = createSharedValue(0);
/** A hook: the number of changes that wait for the server. */
export const useWaitingChanges = waiting.use;
let lastInLine: Promise<unknown> = Promise.resolve();

/** Sends a change that may be sent twice. While the server is away, it waits behind those that wait already. */
export async function sendInLine<T>(send: () => Promise<T>): Promise<T> {
  if (waiting.get() === 0 && !away.get()) {
    try {
      return await send();
    } catch (error) {
      if (!isUnanswered(error)) throw error;
    }
  }
  waiting.set(waiting.get() + 1);
  const sent = lastInLine.then(() => sendOnReturn(send));
  lastInLine = sent.catch(() => {});
  return sent.finally(() => waiting.set(waiting.get() - 1));
}

async function sendOnReturn<T>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    const wasAway = await waitUntilServerAnswers();
    try {
      return await send();
    } catch (error) {
      // A server that answers others but not this request will not answer it the next time, either.
      if (!isUnanswered(error) || !wasAway) throw error;
    }
  }
}

/** A request without a response has the status 0 (lib/api-client.ts). */
const isUnanswered = (error: unknown): boolean => (error as { status?: number }).status === 0;

addEventListener("beforeunload", (event) => waiting.get() > 0 && event.preventDefault());
