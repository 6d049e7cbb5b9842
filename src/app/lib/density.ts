/** How much room a row of a list takes, chosen in this browser. */
import { createSharedValue } from "./cell.ts";

type Density = "comfortable" | "compact";
const KEY = "mailroom.density";

function stored(): Density {
  try {
    return localStorage.getItem(KEY) === "compact" ? "compact" : "comfortable";
  } catch {
    return "comfortable";
  }
}

const density = createSharedValue<Density>(stored());
/** A hook: true while rows are compact. */
export const useCompact = (): boolean => density.use() === "compact";

export function toggleDensity(): void {
  const next = density.get() === "compact" ? "comfortable" : "compact";
  density.set(next);
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage, it lasts as long as the page.
  }
}
