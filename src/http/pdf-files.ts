/** The viewer of PDFs, bundled (bundled.macro.ts). Imported on the first request for it. */
import { bundleBrowserCode } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundleBrowserCode("app/pdf/viewer.ts");
