/**
 * The environment of a server, in a file of its data folder, so that backups have it and another machine can start with it.
 *
 * Whoever had a backup in hand may have edited it. So what is taken over are values that this program accepts, and none
 * that names a program, or a file that is not there.
 */
import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { type Environment, readConfig, SERVER_VARIABLES } from "../config.ts";
import { writeText } from "./durable-files.ts";

/** In the data folder: a JSON object of names and values. */
export const ENVIRONMENT = "environment.json";

/** Names a file of the machine, so that it is remembered, for people to read. */
const CA_CERTIFICATES = "NODE_EXTRA_CA_CERTS";
const KNOWN: readonly string[] = [...SERVER_VARIABLES, CA_CERTIFICATES];

/** Writes down what the server was started with, without secrets. @throws errors of the file system */
export async function keepEnvironment(data: string, env: Environment): Promise<void> {
  const path = join(data, ENVIRONMENT);
  const set = Object.fromEntries(KNOWN.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
  const text = `${JSON.stringify(set, null, 2)}\n`;
  if ((await readFile(path, "utf8").catch(() => "")) !== text) await writeText(path, text);
}

export interface TakenOver {
  /** Values by the names of their variables, as readConfig takes them. */
  environment: Record<string, string>;
  /** Settings that another machine cannot take over, and why. */
  left: { name: string; value: string; why: string }[];
}

/** A value that an environment file can have without quotes. */
const PLAIN = /^[!-~](?:[ -~]{0,4094}[!-~])?$/;
const QUOTED = /["'\\]/;
const LISTENER = /^MAILROOM_(?:MX|SUBMISSIONS?|IMAPS?|HTTPS?)$/;

const OWN_MACHINE: readonly [name: string, value: RegExp, why: string][] = [
  ["MAILROOM_TLS", /^files:/, "these files are not on this machine: put a certificate in place, or give --tls"],
  ["MAILROOM_ACME_CHALLENGE", /^dns-hook:/, "a program that a backup names is not run: give --acme-challenge"],
  ["MAILROOM_BLOBS", /^/, "the backup brings attachments as files: set it again to have them in S3"],
  ["MAILROOM_REPLICA", /^/, "set it again, with the credentials, once this machine has Litestream"],
  [CA_CERTIFICATES, /^/, "a file of the machine before: put it in place and set this again"],
];

/** Reads the file's text as it was in a backup. Undefined where there is none. */
export function readSavedEnvironment(text: string | undefined): TakenOver {
  const environment: Record<string, string> = {};
  const left: TakenOver["left"] = [];
  for (const [name, value] of Object.entries(readObject(text))) {
    if (!KNOWN.includes(name) || typeof value !== "string" || !PLAIN.test(value)) continue;
    const [, , why] = OWN_MACHINE.find(([own, what]) => own === name && what.test(value)) ?? [];
    if (QUOTED.test(value)) left.push({ name, value, why: "it has quotes or backslashes" });
    else if (why !== undefined && !isCertificateHere(value)) left.push({ name, value, why });
    else environment[name] = value;
  }
  for (const [name, value] of Object.entries(environment)) {
    const here = LISTENER.test(name) ? listenerHere(value) : undefined;
    if (here === undefined) continue;
    left.push({ name, value, why: "this machine has not that address" });
    environment[name] = here;
  }
  // Each refusal names its variable, so that this ends.
  for (
    let refused = findRefusedSetting(environment);
    refused !== undefined;
    refused = findRefusedSetting(environment)
  ) {
    left.push({ ...refused, value: environment[refused.name] ?? "" });
    delete environment[refused.name];
  }
  return { environment, left };
}

function readObject(text = "{}"): object {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null ? read : {};
  } catch {
    return {};
  }
}

function isCertificateHere(value: string): boolean {
  const [, ...paths] = /^files:([^,]+),([^,]+)$/.exec(value) ?? [];
  return paths.length > 0 && paths.every((path) => existsSync(path) && statSync(path).isFile());
}

/** The listener of every address, in place of one at an address that this machine has not; undefined for others. */
function listenerHere(value: string): string | undefined {
  const [, host = "", port] = /^(\[[0-9a-fA-F:.]+\]|\d{1,3}(?:\.\d{1,3}){3}):(\d{1,5})$/.exec(value) ?? [];
  const here = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  const every = here.some(({ family }) => family === "IPv6") ? "[::]" : "0.0.0.0";
  if (port === undefined || host === "0.0.0.0" || host === every) return undefined;
  const isHere = here.some(({ address }) => address === host || `[${address}]` === host);
  return isHere ? undefined : `${every}:${port}`;
}

function findRefusedSetting(environment: Record<string, string>): { name: string; why: string } | undefined {
  try {
    readConfig(environment);
    return undefined;
  } catch (error) {
    const [name] = error instanceof ConfigError ? (/^MAILROOM_\w+/.exec(error.message) ?? []) : [];
    if (name === undefined || environment[name] === undefined) throw error;
    return { name, why: (error as Error).message };
  }
}
