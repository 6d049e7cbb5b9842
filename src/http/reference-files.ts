/** What browsers run of the API reference, bundled as the app is (bundled.macro.ts). Imported when it is first asked for. */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundled("app/reference/browser.ts");
