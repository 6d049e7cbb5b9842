/** The viewer of PDFs, bundled (bundled.macro.ts). Imported when the first PDF is looked at. */
import { bundled } from "./bundled.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundled("app/pdf/viewer.ts");
