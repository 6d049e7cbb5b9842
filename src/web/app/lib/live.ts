/**
 * Listens for news of mail while a page is open, and tells whether it can. The browser connects again by itself; where it
 * gives up, this does, from where the news stood: nothing is missed.
 */
import { useEffect } from "react";
import { LIVE } from "./api.ts";
import { cell } from "./cell.ts";
import { meQuery, queryClient, refreshMail } from "./queries.ts";

/** News of one moment are followed together. */
const GATHERED_MS = 200;
const AGAIN_MS = 5_000;

const cutOff = cell(false);
/** Whether news cannot be heard just now. */
export const useCutOff = cutOff.use;

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

export function useLiveMail(): void {
  useEffect(() => {
    let source: EventSource;
    let again: ReturnType<typeof setTimeout> | undefined;
    function listen(): void {
      const after = position ?? queryClient.getQueryData(meQuery.queryKey)?.news ?? "";
      source = new EventSource(`${LIVE}?after=${after}`);
      const heard = ({ lastEventId }: MessageEvent) => {
        position = lastEventId;
        cutOff.set(false);
      };
      source.addEventListener("hello", heard);
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
        if (source.readyState === EventSource.CLOSED) again = setTimeout(listen, AGAIN_MS);
      });
    }
    listen();
    return () => {
      clearTimeout(again);
      source.close();
    };
  }, []);
}
