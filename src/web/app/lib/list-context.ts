/** What the list of conversations tells the one that is open beside it. */
import { createContext } from "react";

export const ListContext = createContext<{
  /** To be called when the open conversation leaves the list. */
  left: () => void;
}>({ left: () => {} });
