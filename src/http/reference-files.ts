/** Script and style of the API reference, bundled (bundled.macro.ts). Imported on the first request for it. */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundled("app/reference/browser.ts");
