/** The service worker of the app, bundled (bundled.macro.ts). Imported on the first request for it. */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script }: { script: string } = bundled("app/worker/worker.ts");
