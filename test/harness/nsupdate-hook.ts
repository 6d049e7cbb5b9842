/** packaging/nsupdate-hook, and the presence of nsupdate. */
import { join } from "node:path";

export const NSUPDATE_HOOK = join(import.meta.dir, "../../packaging/nsupdate-hook");

/** The reason why its tests with a real DNS server are skipped, or undefined. */
export const noNsupdate =
  Bun.which("nsupdate") === null ? "nsupdate is not installed (apt-get install bind9-dnsutils)" : undefined;
