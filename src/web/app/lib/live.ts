/** Listens for news of mail while a page is open; the browser connects again by itself. */
import { useEffect } from "react";
import { LIVE } from "./api.ts";
import { refreshMail } from "./queries.ts";

export function useLiveMail(): void {
  useEffect(() => {
    const source = new EventSource(LIVE);
    source.addEventListener("mail", ({ data }: MessageEvent<string>) => {
      refreshMail((JSON.parse(data) as { threadIds: string[] }).threadIds);
    });
    return () => source.close();
  }, []);
}
