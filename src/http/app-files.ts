/** The browser app, bundled (bundled.macro.ts). Imported when the first page is asked for, since from source that takes a second. */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style, chunks, first } = bundled("app/main.tsx");
