/**
 * The browser app, bundled (bundled.macro.ts). Imported on the first request for a page: from source, bundling takes a
 * second.
 */
import { bundleBrowserCode } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style, chunks, first } = bundleBrowserCode("app/start.tsx");
