/** QR codes (ISO/IEC 18004), drawn here: what they hold goes nowhere else. */
import encode from "qr";
import type { QrView } from "./identity-views.ts";

/** The standard's quiet zone, in modules. */
const BORDER = 4;

export function drawQr(text: string): QrView {
  const rows = encode(text, "raw", { ecc: "medium", border: BORDER });
  const bars = rows.flatMap((row, y) =>
    [
      ...row
        .map((dark) => (dark ? "#" : " "))
        .join("")
        .matchAll(/#+/g),
    ].map(({ index, 0: { length } }) => `M${index} ${y}h${length}v1h-${length}z`),
  );
  return { size: rows.length, path: bars.join("") };
}
