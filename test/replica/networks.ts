/**
 * Machines with networks of their own: network namespaces, each with a wire to the tests and another one to the bucket. They do
 * not reach each other. Needs root and iproute2.
 */
import { atEndOfFile } from "../harness/end.ts";
import { PROGRAM, type Program } from "../harness/servers/process.ts";

export interface NetworkedMachine {
  /** The executable, run in its network. */
  readonly program: Program;
  /** Address of the machine, on its wire to the tests. */
  readonly address: string;
  /** Address of the tests, on the wire that is for the bucket. */
  readonly bucketAddress: string;
  /** Takes the wire to the bucket out, and puts it in again: what was sent meanwhile is lost. */
  cut(): void;
  mend(): void;
}

const ip = (...args: string[]): { ok: boolean; said: string } => {
  const { exitCode, stderr } = Bun.spawnSync(["ip", ...args]);
  return { ok: exitCode === 0, said: stderr.toString().trim() };
};

function change(...args: string[]): void {
  const { ok, said } = ip(...args);
  if (!ok) throw new Error(`ip ${args.join(" ")}: ${said}`);
}

const made: string[] = [];
atEndOfFile(() => {
  for (const name of made.splice(0)) ip("netns", "delete", name);
});

/** The reason why tests that need them are skipped, or undefined. */
export const noNetworks = ((): string | undefined => {
  if (Bun.which("ip") === null) return "iproute2 is not installed";
  const probe = `mailroom-${process.pid}-probe`;
  if (!ip("netns", "add", probe).ok) return "no right to make a network namespace";
  ip("netns", "delete", probe);
  return undefined;
})();

/** Adds a wire from here into a namespace; returns the names of its ends' addresses, from a network for benchmarks (RFC 2544). */
function wire(namespace: string, name: string, number: number): { here: string; there: string } {
  const [second, third, last] = [18 + (number % 2), process.pid % 256, 4 * number];
  const [here, there] = [`198.${second}.${third}.${last + 1}`, `198.${second}.${third}.${last + 2}`] as const;
  change("link", "add", name, "type", "veth", "peer", "name", `${name}p`, "netns", namespace);
  change("address", "add", `${here}/30`, "dev", name);
  change("link", "set", name, "up");
  change("-n", namespace, "address", "add", `${there}/30`, "dev", `${name}p`);
  change("-n", namespace, "link", "set", `${name}p`, "up");
  return { here, there };
}

/** @throws Error if it cannot be made */
export function networkedMachine(): NetworkedMachine {
  const number = 2 * made.length;
  const namespace = `mailroom-${process.pid}-${number}`;
  change("netns", "add", namespace);
  made.push(namespace);
  change("-n", namespace, "link", "set", "lo", "up");
  const name = `mr${process.pid}x${number}`;
  const { there: address } = wire(namespace, name, number);
  const { here: bucketAddress } = wire(namespace, `${name}b`, number + 1);
  return {
    program: ["ip", "netns", "exec", namespace, ...PROGRAM],
    address,
    bucketAddress,
    cut: () => change("link", "set", `${name}b`, "down"),
    mend: () => change("link", "set", `${name}b`, "up"),
  };
}
