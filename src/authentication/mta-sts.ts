/**
 * The texts of MTA-STS (RFC 8461): the DNS record, the policy, and the hosts that it names. Reads those of other domains and
 * writes ours. Pure.
 */
import { createHash } from "node:crypto";

export const STS_MODES = ["none", "testing", "enforce"] as const;
export type StsMode = (typeof STS_MODES)[number];

export interface StsPolicy {
  mode: StsMode;
  /** Lower case; one may begin with `*.`. */
  mx: readonly string[];
  maxAgeSeconds: number;
}

/** The URL of a domain's policy. */
export const policyHostOf = (domain: string): string => `mta-sts.${domain}`;
export const POLICY_PATH = "/.well-known/mta-sts.txt";

/** RFC 8461 §3.2: one year. */
const LONGEST_AGE_SECONDS = 31_557_600;

/** The policy's id in the TXT records of `_mta-sts.<domain>`; undefined unless exactly one is of MTA-STS (§3.1). */
export function readStsRecord(texts: readonly string[]): string | undefined {
  const [record, ...others] = texts.filter((text) => /^v=STSv1\s*(;|$)/.test(text));
  if (record === undefined || others.length > 0) return undefined;
  return /;\s*id=([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(record)?.[1];
}

/** @throws Error with the fault */
export function readStsPolicy(text: string): StsPolicy {
  const fields = text.split(/\r?\n/).flatMap((line) => {
    const [, name, value] = /^([A-Za-z0-9][\w.-]*)\s*:\s*(.*)$/.exec(line.trimEnd()) ?? [];
    return name === undefined || value === undefined ? [] : [{ name, value }];
  });
  // The first of repeated fields counts, except for mx (§3.2).
  const first = (name: string) => fields.find((field) => field.name === name)?.value;
  if (first("version") !== "STSv1") throw new Error("the policy is not of version STSv1");
  const mode = STS_MODES.find((known) => known === first("mode"));
  if (mode === undefined) throw new Error("the policy has no mode");
  const age = first("max_age") ?? "";
  if (!/^\d{1,10}$/.test(age) || Number(age) > LONGEST_AGE_SECONDS) throw new Error("the policy has no valid max_age");
  const mx = fields.flatMap(({ name, value }) => (name === "mx" ? value.toLowerCase() : []));
  if (mode !== "none" && mx.length === 0) throw new Error("the policy names no mx");
  return { mode, mx, maxAgeSeconds: Number(age) };
}

/** The policy as it is published. */
export function writeStsPolicy({ mode, mx, maxAgeSeconds }: StsPolicy): string {
  const hosts = mode === "none" ? [] : mx;
  const lines = ["version: STSv1", `mode: ${mode}`, ...hosts.map((host) => `mx: ${host}`), `max_age: ${maxAgeSeconds}`];
  return lines.map((line) => `${line}\n`).join("");
}

/** The TXT record for a policy as published: its id changes when the policy does. */
export function writeStsRecord(text: string): string {
  return `v=STSv1; id=${createHash("sha256").update(text).digest("hex").slice(0, 20)}`;
}

/** Whether the policy names the host, lower case (§4.1): `*.` stands for exactly one label. */
export function namesHost({ mx }: StsPolicy, host: string): boolean {
  const parent = host.slice(host.indexOf("."));
  return mx.some((name) => name === host || (name.startsWith("*.") && host.includes(".") && name.slice(1) === parent));
}
