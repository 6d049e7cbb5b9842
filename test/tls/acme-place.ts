/** A data folder that gets its certificates by ACME, and a server that shows its proofs over HTTP. */
import { afterEach } from "bun:test";
import { join } from "node:path";
import { createServer } from "node:tls";
import { createLog } from "../../src/base/log.ts";
import type { Runtime } from "../../src/base/runtime.ts";
import type { ChallengeMode } from "../../src/config.ts";
import { type Certificates, type DomainHosts, type KeyPair, openCertificates } from "../../src/tls/certificates.ts";
import { namesShownAt } from "../harness/clients/tls-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { zone } from "../harness/peers/dns-server.ts";
import type { Pebble } from "../harness/peers/pebble.ts";
import { fakeRuntime } from "../harness/runtime.ts";

/** The name in the server's own certificate. */
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
  { directory, authority, zone: names }: Pick<Pebble, "directory" | "authority" | "zone">,
  { folder = temporaryFolder(), challenge = { type: "http" }, world = {} }: PlaceOptions = {},
) {
  const runtime = fakeRuntime({ dns: zone(names), authorities: [authority], ...world });
  runtime.advanceTo(Date.now());
  const lines: Record<string, unknown>[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  let listed: readonly DomainHosts[] = [];
  let list = () => listed;
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
    /** Serves these domains from now on, each with its policy host; a domain's owner may stand behind a space. */
    serve: (...domains: string[]) => {
      listed = domains.map((domain) => {
        const [name = "", owner = name] = domain.split(" ");
        return { name, owner, hosts: [`mta-sts.${name}`, `autoconfig.${name}`] };
      });
    },
    failToList: () => {
      list = () => {
        throw new Error("disk I/O error");
      };
    },
    /** Opens the certificates as a start does, and stops the earlier ones. `others`: more names of the server. */
    async open(others: readonly string[] = []) {
      certificates?.stop();
      const mode = { mode: "acme", directory, email: "admin@example.test", challenge } as const;
      const names = [HOST, ...others];
      const setup = { mode, hostname: HOST, folder, names, domains: () => list(), runtime, log };
      const opened = await openCertificates(setup);
      certificates = opened;
      const seen: KeyPair[] = [];
      opened.onChange((pair) => seen.push(pair));
      return {
        ...opened,
        seen,
        look: () => opened.job.runDue(runtime.now()) as Promise<number>,
        /** The names in the certificate that a client gets which names this one. */
        shownFor: (name: string) => shownBy(opened, name),
      };
    },
    file: (name: string) => join(folder, "tls/acme", name),
  };
}

/** The names in the certificate that a listener shows. */
async function shownBy(certificates: Certificates, name: string): Promise<string[]> {
  const server = createServer({ ...certificates.current(), SNICallback: certificates.choose }, (socket) =>
    socket.end(),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  try {
    return await namesShownAt({ port }, name);
  } finally {
    server.close();
  }
}
