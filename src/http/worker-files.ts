/** The service worker of the app, bundled (bundled.macro.ts). Imported on the first request for it. */
import { bundleBrowserCode } from "./bundled.macro.ts" with { type: "macro" };

export const { script }: { script: string } = bundleBrowserCode("app/worker/worker.ts");
