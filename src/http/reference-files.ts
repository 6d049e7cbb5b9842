/** Script and style of the API reference, bundled (bundled.macro.ts). Imported on the first request for it. */
import { bundleBrowserCode } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundleBrowserCode("app/reference/browser.ts");
