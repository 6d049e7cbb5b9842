/** The viewer of PDFs, bundled (app-files.macro.ts). Imported when the first PDF is looked at. */
import { bundled } from "./app-files.macro.ts" with { type: "macro" };

export const { script, style }: { script: string; style: string } = bundled("pdf/viewer.ts");
