/** Connects the list of conversations with the open one beside it. */
import { createContext } from "react";

export const ListContext = createContext<{
  /** Call it when the open conversation leaves the list. `to`: the next place to go to. */
  left: (to?: "next" | "previous" | "list") => void;
  /** True: conversations are selected, and shortcuts act on them. */
  selecting: boolean;
}>({ left: () => {}, selecting: false });
