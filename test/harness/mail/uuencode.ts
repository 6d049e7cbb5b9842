/** Writes a file as POSIX `uuencode` does. */
export function uuencoded(name: string, content: Uint8Array): string {
  const digit = (value: number): string => (value === 0 ? "`" : String.fromCharCode(0x20 + value));
  const lines: string[] = [];
  for (let at = 0; at < content.length; at += 45) {
    const octets = content.subarray(at, at + 45);
    let line = digit(octets.length);
    for (let i = 0; i < octets.length; i += 3) {
      const [a = 0, b = 0, c = 0] = octets.subarray(i, i + 3);
      line += [a >> 2, ((a & 3) << 4) | (b >> 4), ((b & 15) << 2) | (c >> 6), c & 63].map(digit).join("");
    }
    lines.push(line);
  }
  return `begin 644 ${name}\n${lines.map((line) => `${line}\n`).join("")}\`\nend\n`;
}
