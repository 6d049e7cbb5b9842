/**
 * Passwords in tests, hashed as cheaply as can be: what it costs to check a real one is no matter of most tests, and was
 * a third of what some of them took. install.ts has every hash of the process made so.
 */
const CHEAPEST = { algorithm: "argon2id", memoryCost: 8, timeCost: 1 } as const;
const realHash = Bun.password.hash.bind(Bun.password);

export const quickHash = (password: Bun.StringOrBuffer): Promise<string> => realHash(password, CHEAPEST);

/** From now on, whatever the program asks for. */
export function hashQuickly(): void {
  Bun.password.hash = quickHash;
}

/** Runs `work` with hashes as the program asks for them. */
export async function withRealHashes<T>(work: () => Promise<T>): Promise<T> {
  Bun.password.hash = realHash;
  try {
    return await work();
  } finally {
    hashQuickly();
  }
}
