/** A QR code, dark on light in both colour schemes, as scanners expect. */
import type { QrView } from "../lib/settings-identity.ts";

export function QrCode({ of: { size, path }, label }: { of: QrView; label: string }) {
  return (
    <svg role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} className="size-48 rounded-lg">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" shapeRendering="crispEdges" />
    </svg>
  );
}
