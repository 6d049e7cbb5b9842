/** A certificate of the operator's: two files, followed when they change. */
import { X509Certificate } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { ConfigError } from "../base/errors.ts";
import type { CertificateSetup, Source } from "./certificates.ts";
import { type KeyPair, problemOf } from "./pair.ts";

const LOOK_MS = 2_000;

export function fileSource(files: { cert: string; key: string }, { runtime, log }: CertificateSetup): Source {
  let seen = "";

  /** Changes when either file is written, or replaced by another. */
  async function signature(): Promise<string> {
    const stats = await Promise.all([stat(files.cert), stat(files.key)]);
    return stats.map(({ ino, size, mtimeMs }) => `${ino} ${size} ${mtimeMs}`).join();
  }

  async function read(): Promise<KeyPair> {
    const [cert, key] = await Promise.all([readFile(files.cert, "utf8"), readFile(files.key, "utf8")]);
    const pair = { cert, key };
    const problem = problemOf(pair);
    if (problem) throw new ConfigError(`MAILROOM_TLS: ${problem} (${files.cert}, ${files.key})`);
    const until = new X509Certificate(cert).validToDate;
    if (until.getTime() < runtime.now()) log.warn("certificate has expired", { cert: files.cert, until });
    return pair;
  }

  return {
    async first() {
      try {
        seen = await signature();
        return await read();
      } catch (error) {
        if (error instanceof ConfigError) throw error;
        throw new ConfigError(`MAILROOM_TLS: cannot read ${files.cert} and ${files.key}: ${(error as Error).message}`);
      }
    },
    async look(replace) {
      const now = await signature().catch((error: Error) => error.message);
      if (now !== seen) {
        seen = now;
        try {
          replace(await read());
          log.info("certificate replaced", { cert: files.cert });
        } catch (error) {
          log.warn("new certificate cannot be used, the old one stays", { reason: (error as Error).message });
        }
      }
      return runtime.now() + LOOK_MS;
    },
  };
}
