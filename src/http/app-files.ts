/**
 * The browser app, bundled (bundled.macro.ts). Imported on the first request for a page: from source, bundling takes a
 * second.
 */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style, chunks, first } = bundled("app/start.tsx");
