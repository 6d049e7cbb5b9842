/** Sizes as people write them. */

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  kb: 1_000,
  mb: 1_000_000,
  gb: 1_000_000_000,
  kib: 1_024,
  mib: 1_024 ** 2,
  gib: 1_024 ** 3,
};

/** Description of the sizes that `readSize` takes, for a refusal. */
export const SIZE_FORM = "a whole number of bytes, or a number with kB, MB, GB (1,000) or KiB, MiB, GiB (1,024)";

/** Bytes of `5GB`, `1.5 GiB` or `1048576`; undefined for anything else, and for what is no whole number of bytes. */
export function readSize(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,16}(?:\.\d{1,9})?)(?: ?([kmg]i?b))?$/i.exec(text.trim()) ?? [];
  // Binary fractions: 4.1 GB is 4,099,999,999.9999995.
  const bytes = Number((Number(digits) * (UNITS[unit.toLowerCase()] ?? Number.NaN)).toFixed(3));
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
