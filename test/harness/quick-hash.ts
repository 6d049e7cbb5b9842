/** The cheapest hash of a password there is: what it costs to check a real one is no matter of most tests. */
export const quickHash = (password: string): Promise<string> =>
  Bun.password.hash(password, { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
