/**
 * Knot DNS, an authoritative server that takes signed updates (RFC 2136): a child process on a free port of 127.0.0.1; and
 * the hook that sends it updates.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";

const program = Bun.which("knotd") ?? Bun.which("/usr/sbin/knotd");

/** The reason why its tests are skipped, or undefined. */
export const noKnot = program === null ? "knot is not installed (apt-get install knot)" : undefined;

export const NSUPDATE_HOOK = join(import.meta.dir, "../../../packaging/nsupdate-hook");

/** The reason why tests of the hook with a real DNS server are skipped, or undefined. */
export const noNsupdate =
  Bun.which("nsupdate") === null ? "nsupdate is not installed (apt-get install bind9-dnsutils)" : undefined;

export interface Knot {
  port: number;
  /** File of the key that may update TXT records, as `tsig-keygen` writes it, and its base64 secret. */
  keyFile: string;
  secret: string;
}

const children: Bun.Subprocess[] = [];
atEndOfFile(async () => {
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.splice(0).map((child) => child.exited));
});

const KEY = "mailroom";
const SECRET = Buffer.from("a secret of thirty-two bytes, so").toString("base64");

/** `records`: lines of each zone's file, besides SOA and NS. */
export async function startKnot(records: Record<string, readonly string[]>): Promise<Knot> {
  if (program === null) throw new Error(noKnot);
  const folder = temporaryFolder();
  const port = await takePort();
  mkdirSync(join(folder, "zones"));
  for (const [zone, lines] of Object.entries(records)) {
    const soa = `@ 60 SOA ns1.example.test. admin.example.test. 1 3600 600 86400 60`;
    writeFileSync(join(folder, "zones", `${zone}.zone`), [soa, "@ 60 NS ns1.example.test.", ...lines, ""].join("\n"));
  }
  const config = `
server:
    rundir: "${folder}"
    listen: 127.0.0.1@${port}
log:
  - target: stdout
    any: info
database:
    storage: "${folder}"
key:
  - id: ${KEY}
    algorithm: hmac-sha256
    secret: ${SECRET}
acl:
  - id: proofs
    key: ${KEY}
    action: update
    update-type: [TXT]
template:
  - id: default
    storage: "${folder}/zones"
    file: "%s.zone"
    acl: proofs
zone:
${Object.keys(records)
  .map((zone) => `  - domain: ${zone}`)
  .join("\n")}
`;
  writeFileSync(join(folder, "knot.conf"), config);
  const keyFile = join(folder, "tsig.key");
  writeFileSync(keyFile, `key "${KEY}" {\n\talgorithm hmac-sha256;\n\tsecret "${SECRET}";\n};\n`);
  const child = Bun.spawn([program, "-c", join(folder, "knot.conf")], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const ready = Promise.withResolvers<void>();
  void (async () => {
    let output = "";
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += chunk;
      const loaded = Object.keys(records).every((zone) => output.includes(`[${zone}.] loaded`));
      if (loaded && output.includes("server started")) ready.resolve();
    }
    ready.reject(new Error(`knot ended: ${output}`));
  })();
  await ready.promise;
  return { port, keyFile, secret: SECRET };
}
