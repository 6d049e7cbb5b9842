/**
 * Where the Meilisearch server is, and whether there is one: that of `search.meilisearchUrl`, else the child process that
 * the appliance runs. Whoever uses it asks each time, and is told when the answer may have changed.
 */
import type { Options } from "../../store/settings.ts";

/** A server that can be asked now. */
export interface Place {
  /** `http://host:port`, maybe with a path; without a slash at the end. */
  url: string;
  /** Empty for a server without keys. Never logged. */
  key: string;
}

export interface Connection {
  /** Undefined while there is none: off, starting, or down. */
  current(): Place | undefined;
  /** `listener` is called when what `current` gives may have changed. */
  onChange(listener: () => void): void;
  stop(graceMs: number): Promise<void>;
}

/** That of the settings, where they name one; otherwise the child's; none while the engine is another. */
export function chooseConnection(options: Pick<Options, "get" | "onRefresh">, child?: Connection): Connection {
  return {
    current() {
      if (options.get("search.engine") !== "meilisearch") return undefined;
      const url = options.get("search.meilisearchUrl");
      if (url === "none") return child?.current();
      const key = options.get("search.meilisearchKey");
      return { url, key: key === "none" ? "" : key };
    },
    onChange(listener) {
      options.onRefresh(listener);
      child?.onChange(listener);
    },
    stop: async (graceMs) => child?.stop(graceMs),
  };
}
