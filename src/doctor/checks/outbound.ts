/** The way out: port 25 of well-known mail servers, which many providers block; or the smarthost, where there is one. */
import { findMailHosts, mailHost } from "../../outbound/next-hop.ts";
import { readSmarthost } from "../../outbound/transport.ts";
import type { Check, Finding, World } from "../check.ts";

/** Whose mail servers are always there. */
const WELL_KNOWN = ["gmail.com", "outlook.com", "yahoo.com"];

const NAME = "Outbound mail";

export const checkOutbound: Check = async (world) => {
  const setting = world.options.get("smtp.relay");
  return [setting === "none" ? await checkPort(world) : await checkRelay(world, setting)];
};

async function checkPort({ options, runtime, system, config }: World): Promise<Finding> {
  const base = { id: "outbound", name: NAME } as const;
  const port = options.get("smtp.outboundPort");
  const hostname = config.hostname;
  const randomBytes = (size: number) => new Uint8Array(size);
  const reasons: string[] = [];
  let isResolved = false;
  for (const domain of WELL_KNOWN) {
    try {
      const [host] = await findMailHosts(domain, { runtime: { ...runtime, randomBytes }, hostname });
      const [address] = (await host?.addresses()) ?? [];
      if (!host || address === undefined) continue;
      isResolved = true;
      const { line = "" } = await system.greet(address, port, "line");
      if (line.startsWith("220")) return { ...base, state: "ok", detail: `${host.name} answers on port ${port}` };
      reasons.push(`${host.name} says ${line}`);
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  const detail = `no mail server of ${WELL_KNOWN.join(", ")} could be reached: ${reasons[0] ?? "none has an address"}`;
  if (!isResolved) {
    const todo = "See that DNS works on this machine (resolvectl status), or name resolvers that do in MAILROOM_DNS.";
    return { ...base, id: "dns", name: "DNS", state: "bad", detail, todo };
  }
  const todo = `Ask the provider of this machine to open port ${port} outwards, which many block until asked; or hand mail to a smarthost: mailroom settings set smtp.relay - takes smtps://USER:PASSWORD@HOST on standard input`;
  return { ...base, state: "bad", detail, todo };
}

async function checkRelay({ system, runtime }: World, setting: string): Promise<Finding> {
  const base = { id: "outbound", name: NAME } as const;
  const { host, port, tls } = readSmarthost(setting);
  try {
    const [address = host] = await mailHost(host, runtime.dns).addresses();
    await system.greet(address, port, tls.mode === "implicit" ? "certificate" : "line");
    return { ...base, state: "ok", detail: `the smarthost ${host} answers on port ${port}` };
  } catch (error) {
    const detail = `the smarthost ${host} does not answer on port ${port}: ${error instanceof Error ? error.message : error}`;
    return {
      ...base,
      state: "bad",
      detail,
      todo: "See that the setting smtp.relay names the right host and port, and that a firewall lets it through.",
    };
  }
}
