/**
 * Measures what it takes to pick the next recipient out of 100,000, however they are spread over domains, and the memory for
 * it.
 */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { newId, systemRuntime } from "../../src/base/runtime.ts";
import { type Claim, claimQueueEntries } from "../../src/outbound/claims.ts";
import { addOutbound } from "../../src/outbound/queue.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { run, serve } from "../harness/servers/process.ts";
import { ADDRESS, folder, newPlace, print, residentMB, timings } from "./figures.ts";

const ENTRIES = 100_000;
const PER_TRANSACTION = 1_000;
const LEASE_MS = 1_800_000;
/** A relay at a port where nobody listens. */
export const NOWHERE = "smtp://127.0.0.1:1";
const CONTENT = new Uint8Array(1_000).fill(0x61);

const SPREADS: readonly (readonly [label: string, domainOf: (n: number) => string])[] = [
  ["of one domain", () => "one.example"],
  ["of as many domains", (n) => `d${n}.example`],
  ["behind 90,000 of a busy domain", (n) => (n < 90_000 ? "busy.example" : `d${n}.example`)],
];

/** `workspaceId`: of the sender; by default none, whose mail is claimed but never sent. */
function fill(store: Store, domainOf: (n: number) => string, now: number, workspaceId = "wsp_1"): void {
  const runtime = systemRuntime();
  const sender = ADDRESS.slice(ADDRESS.indexOf("@") + 1);
  for (let start = 0; start < ENTRIES; start += PER_TRANSACTION) {
    store.transact((tx) => {
      for (let n = start; n < start + PER_TRANSACTION; n++) {
        const id = newId(runtime, "msg");
        addOutbound(tx, {
          id,
          workspaceId,
          mailboxId: "mbx_1",
          mailbox: ADDRESS,
          threadId: "thr_1",
          messageId: `<${id}@${sender}>`,
          subject: "Bench",
          domain: sender,
          returnPath: `bounce+${id}@${sender}`,
          acceptedAt: now,
          outsideRecipients: 1,
          recipients: [{ id: newId(runtime, "que"), email: `reader@${domainOf(n)}`, field: "to" }],
          content: { bytes: CONTENT },
        });
      }
    });
  }
}

export async function measureQueue(): Promise<void> {
  for (const [label, domainOf] of SPREADS) {
    const runtime = systemRuntime();
    const store = openStore({ folder: mkdtempSync(join(folder, "queue-")), runtime });
    const now = runtime.now();
    fill(store, domainOf, now);
    const terms = {
      now: now + 1,
      leaseUntil: now + LEASE_MS,
      notBefore: (domain: string) => (domain === "busy.example" ? Number.POSITIVE_INFINITY : 0),
    };
    const pick = (): Claim => {
      const picked = store.transact((tx) => claimQueueEntries(tx, terms));
      if (!picked) throw new Error("nothing is due");
      return picked;
    };
    const [middle, p99] = await timings(pick);
    print({
      figure: `picking one of ${ENTRIES} waiting, ${label}, committed, median`,
      value: middle,
      unit: "ms",
      toReach: "2",
    });
    print({ figure: `picking one of ${ENTRIES} waiting, ${label}, committed, p99`, value: p99, unit: "ms" });
    store.close();
  }
  await measureMemory();
}

/** Measures the memory of a server with as many recipients waiting for a smarthost that is away, once it has turned to it. */
async function measureMemory(): Promise<void> {
  const { place, workspaceId } = await newPlace("waiting");
  const store = openStore({ folder: place.data, runtime: systemRuntime() });
  fill(store, (n) => `d${n % 5_000}.example`, Date.now(), workspaceId);
  store.close();
  const { exitCode, stderr } = await run(place, ["settings", "set", "smtp.relay", NOWHERE]);
  if (exitCode !== 0) throw new Error(stderr);
  const server = await serve(place);
  while (!server.stderr().includes("smarthost cannot be used")) await Bun.sleep(100);
  print({ figure: `resident with ${ENTRIES} recipients waiting`, value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGTERM");
}
