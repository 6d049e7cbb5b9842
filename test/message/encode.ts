/** Encodes text in a legacy charset, of which the platform offers only the decoder. */

const tables = new Map<string, Map<string, number[]>>();

/** The octets of each character: those of one octet first, then those of two. */
function tableOf(charset: string): Map<string, number[]> {
  const known = tables.get(charset);
  if (known !== undefined) return known;
  const decoder = new TextDecoder(charset as ConstructorParameters<typeof TextDecoder>[0], { fatal: true });
  const table = new Map<string, number[]>();
  const add = (octets: number[]) => {
    try {
      const text = decoder.decode(new Uint8Array(octets));
      if ([...text].length === 1 && !table.has(text)) table.set(text, octets);
    } catch {}
  };
  for (let octet = 0; octet < 256; octet++) add([octet]);
  for (let lead = 0x80; lead < 256; lead++) for (let trail = 0x40; trail < 256; trail++) add([lead, trail]);
  tables.set(charset, table);
  return table;
}

/** @throws Error for a character that the charset lacks */
export function encodeIn(charset: string, text: string): Buffer {
  const table = tableOf(charset);
  return Buffer.from(
    Array.from(text).flatMap((character) => {
      const octets = table.get(character);
      if (octets === undefined) throw new Error(`${charset} has no ${character}`);
      return octets;
    }),
  );
}
