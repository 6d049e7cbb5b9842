/**
 * Decodes charsets that write Korean and Chinese in octets of 7 bits and switch between them and ASCII: ISO-2022-KR
 * (RFC 1557), ISO-2022-CN (RFC 1922) and HZ (RFC 1843). Neither the platform nor iconv-lite knows them. Linear time.
 *
 * Their characters are those of EUC-KR and GBK without the eighth bit, so they are decoded there.
 */

const [LF, CR, SO, SI, ESC, DOLLAR, TILDE] = [0x0a, 0x0d, 0x0e, 0x0f, 0x1b, 0x24, 0x7e];
const [OPEN, CLOSE] = [0x7b, 0x7d];
const euckr = new TextDecoder("euc-kr");
const gbk = new TextDecoder("gbk");

/** The decoder of a charset by its label, in lower case. Octets that have the eighth bit already keep it. */
export function shiftedDecoder(label: string): ((octets: Uint8Array) => string) | undefined {
  const [, name = ""] = /^(?:cs)?(iso-?2022-?kr|iso-?2022-?cn|hz)(?:-?ext|-?gb-?2312)?$/.exec(label) ?? [];
  if (name === "") return undefined;
  if (name === "hz") return (octets) => gbk.decode(widened(octets, TILDE, readTilde));
  const decoder = name.endsWith("kr") ? euckr : gbk;
  return (octets) => decoder.decode(widened(octets, ESC, readShift));
}

/** A sequence at an offset: its length; whether what follows is in two octets, if it says so; the octet it stands for. */
interface Sequence {
  length: number;
  wide?: boolean;
  octet?: number;
}

/** Octets with the eighth bit where two of them are one character. `first`: the octet with which sequences begin, beside SO and SI. */
function widened(octets: Uint8Array, first: number, read: (octets: Uint8Array, at: number, wide: boolean) => Sequence) {
  const decoded = Buffer.allocUnsafe(octets.length);
  let length = 0;
  let wide = false;
  for (let at = 0; at < octets.length; ) {
    const octet = octets[at] as number;
    const sequence: Sequence | undefined =
      octet === first || octet === SO || octet === SI ? read(octets, at, wide) : undefined;
    if (sequence !== undefined) {
      wide = sequence.wide ?? wide;
      at += sequence.length;
      if (sequence.octet !== undefined) decoded[length++] = wide ? sequence.octet | 0x80 : sequence.octet;
      continue;
    }
    // No character goes across the end of a line.
    if (octet === LF) wide = false;
    decoded[length++] = wide && octet > 0x20 && octet < 0x7f ? octet | 0x80 : octet;
    at++;
  }
  return decoded.subarray(0, length);
}

/** Reads SO and SI. Sequences that designate a charset, such as `ESC $ ) C`, stand for no character. */
function readShift(octets: Uint8Array, at: number): Sequence {
  const octet = octets[at] as number;
  if (octet === ESC) return octets[at + 1] === DOLLAR ? { length: 4 } : { length: 1, octet };
  return { length: 1, wide: octet === SO };
}

/** Reads `~{` and `~}`; `~~` is a tilde, and `~` at the end of a line continues it. */
function readTilde(octets: Uint8Array, at: number, wide: boolean): Sequence {
  const octet = octets[at] as number;
  const next = octets[at + 1];
  if (octet !== TILDE) return { length: 1, octet };
  if (wide) return next === CLOSE ? { length: 2, wide: false } : { length: 1, octet };
  if (next === OPEN) return { length: 2, wide: true };
  if (next === LF) return { length: 2 };
  if (next === CR && octets[at + 2] === LF) return { length: 3 };
  return next === TILDE ? { length: 2, octet } : { length: 1, octet };
}
