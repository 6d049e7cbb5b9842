/** Character maps of PDFs (cmaps.macro.ts): imported when one is needed. */
import { readCMaps } from "./cmaps.macro.ts" with { type: "macro" };

export const cmaps: Record<string, string> = readCMaps();
