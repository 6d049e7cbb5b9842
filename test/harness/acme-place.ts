/** A data folder that gets its certificate by ACME, and a server that shows its proofs over HTTP. */
import { afterEach } from "bun:test";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import type { Runtime } from "../../src/base/runtime.ts";
import type { ChallengeMode } from "../../src/config.ts";
import { type Certificates, type KeyPair, type Names, openCertificates } from "../../src/tls/certificates.ts";
import { zone } from "./dns-server.ts";
import { temporaryFolder } from "./folder.ts";
import type { Pebble } from "./pebble.ts";
import { fakeRuntime } from "./runtime.ts";

/** The name in the certificate. */
export const HOST = "mail.example.test";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Runs a function when the test is over. */
export const atEndOfTest = (close: () => void): void => void closers.push(close);

interface PlaceOptions {
  folder?: string;
  challenge?: ChallengeMode;
  world?: Partial<Runtime>;
}

/** The clock starts at the current time. */
export function place(
  { directory, authority }: Pick<Pebble, "directory" | "authority">,
  { folder = temporaryFolder(), challenge = { type: "http" }, world = {} }: PlaceOptions = {},
) {
  const runtime = fakeRuntime({ dns: zone({}), authorities: [authority], ...world });
  runtime.advanceTo(Date.now());
  const lines: Record<string, unknown>[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  let names: Names = { main: HOST, others: [] };
  let certificates: Certificates | undefined;
  const proofs = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => new Response(certificates?.proof(url.split("/").at(-1) ?? "") ?? "no proof"),
  });
  atEndOfTest(() => {
    certificates?.stop();
    void proofs.stop(true);
  });
  return {
    folder,
    runtime,
    log,
    lines,
    origin: `http://127.0.0.1:${proofs.port}`,
    ask: (others: string[]) => {
      names = { main: HOST, others };
    },
    /** Opens the certificates as a start does, and stops the earlier ones. */
    async open() {
      certificates?.stop();
      const mode = { mode: "acme", directory, email: "admin@example.test", challenge } as const;
      const setup = { mode, hostname: HOST, folder, names: async () => names, runtime, log };
      const opened = await openCertificates(setup);
      certificates = opened;
      const seen: KeyPair[] = [];
      opened.onChange((pair) => seen.push(pair));
      return { ...opened, seen, look: () => opened.job.runDue(runtime.now()) as Promise<number> };
    },
    file: (name: string) => join(folder, "tls/acme", name),
  };
}
