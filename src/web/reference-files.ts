/** What browsers run of the API reference, bundled as the app is (app-files.macro.ts). Imported when it is first asked for. */
import { bundled } from "./app-files.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundled("reference/browser.ts");
