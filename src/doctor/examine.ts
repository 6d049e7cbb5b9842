/** All checks, and what they find. */
import type { Check, Finding, World } from "./check.ts";
import { checkBackup } from "./checks/backup.ts";
import { checkCertificate } from "./checks/certificate.ts";
import { checkClock } from "./checks/clock.ts";
import { checkDisk } from "./checks/disk.ts";
import { checkDomains } from "./checks/domain-records.ts";
import { checkListeners } from "./checks/listeners.ts";
import { checkOpenFiles } from "./checks/open-files.ts";
import { checkOutbound } from "./checks/outbound.ts";
import { checkPermissions } from "./checks/permissions.ts";
import { checkQueue } from "./checks/queue.ts";
import { checkReverseDns } from "./checks/reverse-dns.ts";
import { checkSchema } from "./checks/schema.ts";
import { checkSearchEngine } from "./checks/search-engine.ts";
import { checkSearchIndex } from "./checks/search-index.ts";

/** In the order that they are told in: by name. */
export const CHECKS: Readonly<Record<string, Check>> = {
  disk: checkDisk,
  clock: checkClock,
  permissions: checkPermissions,
  schema: checkSchema,
  search: checkSearchIndex,
  "search-engine": checkSearchEngine,
  listeners: checkListeners,
  "open-files": checkOpenFiles,
  certificate: checkCertificate,
  outbound: checkOutbound,
  "reverse-dns": checkReverseDns,
  domains: checkDomains,
  queue: checkQueue,
  backup: checkBackup,
};

/** Runs the checks at once. Never rejects: a check that fails is a finding. `onMade`: told of each check that is through. */
export async function examine(
  world: World,
  checks: Readonly<Record<string, Check>> = CHECKS,
  onMade: (check: string) => void = () => {},
): Promise<Finding[]> {
  const found = await Promise.all(
    Object.entries(checks).map(async ([id, check]): Promise<Finding[]> => {
      try {
        return await check(world);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        return [{ id, name: `The check "${id}"`, state: "unknown", detail: `it could not be made: ${reason}` }];
      } finally {
        onMade(id);
      }
    }),
  );
  return found.flat();
}
