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

/** Holds every check of a password up until `release`. `running`: how many are under way. */
export function holdPasswords() {
  const { promise: released, resolve } = Promise.withResolvers<void>();
  const verify = Bun.password.verify;
  const hold = { running: 0, release };
  function release(): void {
    Bun.password.verify = verify;
    resolve();
  }
  Bun.password.verify = async (...given) => {
    hold.running++;
    await released;
    return verify.apply(Bun.password, given);
  };
  return hold;
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
