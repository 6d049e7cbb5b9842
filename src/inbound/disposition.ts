/** What becomes of a message that fails DMARC (RFC 9989 §5.4, rules: DMARC). */

import type { Authentication, Policy } from "../authentication/dmarc.ts";
import type { Runtime } from "../base/runtime.ts";

/**
 * What the author's domain asks for, for this message: where it asks that for some of those that fail, by lot, the next
 * weaker for the others (RFC 7489 §6.6.4).
 */
export function dispositionOf(
  { policy, percent }: Pick<Authentication, "policy" | "percent">,
  runtime: Pick<Runtime, "randomBytes">,
): Policy {
  if (policy === "none" || percent >= 100) return policy;
  const [high = 0, low = 0] = runtime.randomBytes(2);
  const isDrawn = ((high << 8) | low) < (percent / 100) * 65_536;
  if (isDrawn) return policy;
  return policy === "reject" ? "quarantine" : "none";
}
