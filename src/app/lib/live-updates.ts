/**
 * Listens for news of mail while a page is open. The browser reconnects by itself; where it gives up, this code
 * reconnects from the last position, so that no news is missed.
 */
import { useEffect } from "react";
import { api, urlTo } from "./api-client.ts";
import { createSharedValue } from "./cell.ts";
import { meQuery, queryClient, refreshMail } from "./queries.ts";
import { onServerReturn, waitUntilServerAnswers } from "./server-away.ts";

/** News within this time causes one refresh, ms. */
const GATHERED_MS = 200;
const AGAIN_MS = 5_000;
/** More than two heartbeats of the server: after this silence the connection counts as dead, ms. */
const SILENCE_MS = 60_000;

const cutOff = createSharedValue(false);
/** A hook: true while there is no connection for news. */
export const useLiveUpdatesCutOff = cutOff.use;

let position: string | undefined;
let gathered: Set<string> | "all" | undefined;

function gather(threadIds: readonly string[] | "all"): void {
  if (gathered === undefined) {
    setTimeout(() => {
      const changed = gathered;
      gathered = undefined;
      refreshMail(changed === "all" || !changed ? undefined : [...changed]);
    }, GATHERED_MS);
    gathered = new Set();
  }
  if (threadIds === "all" || gathered === "all") gathered = "all";
  else for (const id of threadIds) gathered.add(id);
}

let isAsking = false;
/** Makes a request: if the server refuses the stream because the session has ended, this has the person sign in again. */
function askAnything(): void {
  if (isAsking) return;
  isAsking = true;
  void api
    .listMailboxes()
    .catch(() => {})
    .finally(() => {
      isAsking = false;
    });
}

export function useLiveMail(): void {
  useEffect(() => {
    let source: EventSource | undefined;
    let next: ReturnType<typeof setTimeout> | undefined;

    function listen(): void {
      source?.close();
      const after = position ?? queryClient.getQueryData(meQuery.queryKey)?.news;
      source = new EventSource(urlTo("followMail", { after }));
      wait(SILENCE_MS);
      const heard = ({ lastEventId }: MessageEvent) => {
        position = lastEventId;
        cutOff.set(false);
        wait(SILENCE_MS);
      };
      source.addEventListener("hello", heard);
      source.addEventListener("beat", heard);
      source.addEventListener("mail", (event: MessageEvent<string>) => {
        heard(event);
        gather((JSON.parse(event.data) as { threadIds: string[] }).threadIds);
      });
      source.addEventListener("all", (event) => {
        heard(event);
        gather("all");
      });
      source.addEventListener("error", () => {
        cutOff.set(true);
        void waitUntilServerAnswers();
        if (source?.readyState !== EventSource.CLOSED) return;
        wait(AGAIN_MS);
        askAnything();
      });
    }
    /** Reconnects after `ms` without an event. */
    function wait(ms: number): void {
      clearTimeout(next);
      next = setTimeout(listen, ms);
    }

    listen();
    const forget = onServerReturn(listen);
    return () => {
      clearTimeout(next);
      source?.close();
      cutOff.set(false);
      forget();
    };
  }, []);
}
