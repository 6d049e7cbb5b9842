/** What the list of conversations and the one that is open beside it tell each other. */
import { createContext } from "react";

export const ListContext = createContext<{
  /** To be called when the open conversation leaves the list: where to go then. */
  left: (to?: "next" | "previous" | "list") => void;
  /** Conversations are selected, and shortcuts act on those. */
  selecting: boolean;
}>({ left: () => {}, selecting: false });
