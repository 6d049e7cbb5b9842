/** Hangs or dies when the message says so. */
export function obeyPoison(text: string): void {
  if (text.includes("X-Poison: hang")) for (;;);
  if (text.includes("X-Poison: exit")) process.exit(3);
  if (text.includes("X-Poison: throw")) throw new Error("thrown outside of any promise");
}
