/**
 * Cheap password hashes for tests, since hashing took a third of the time of some tests. install.ts makes all hashes of the
 * process cheap.
 */
const CHEAPEST = { algorithm: "argon2id", memoryCost: 8, timeCost: 1 } as const;
const realHash = Bun.password.hash.bind(Bun.password);

export const quickHash = (password: Bun.StringOrBuffer): Promise<string> => realHash(password, CHEAPEST);

/** Makes hashes cheap from now on. */
export function hashQuickly(): void {
  Bun.password.hash = quickHash;
}

/** Runs `work` with the program's own hashes. */
export async function withRealHashes<T>(work: () => Promise<T>): Promise<T> {
  Bun.password.hash = realHash;
  try {
    return await work();
  } finally {
    hashQuickly();
  }
}
