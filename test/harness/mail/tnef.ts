/** Writes winmail.dat as Outlook does (MS-OXTNEF), with the attributes and properties that matter to a reader of mail. */

const u32 = (value: number): Buffer => {
  const octets = Buffer.alloc(4);
  octets.writeUInt32LE(value >>> 0);
  return octets;
};
const padded = (octets: Uint8Array): Buffer => Buffer.concat([octets, Buffer.alloc((4 - (octets.length % 4)) % 4)]);
const utf16 = (text: string): Buffer => Buffer.from(`${text}\0`, "utf16le");

/** An attribute; `level`: 1 of the message, 2 of a file. */
export function attribute(level: number, id: number, value: Uint8Array): Buffer {
  const checksum = Buffer.alloc(2);
  checksum.writeUInt16LE(value.reduce((sum, octet) => (sum + octet) & 0xffff, 0));
  return Buffer.concat([Buffer.from([level]), u32(id), u32(value.length), value, checksum]);
}

export type Property = [id: number, value: string | Buffer | number | { object: Buffer } | { named: string }];

/** Properties: strings in Unicode, octets, numbers, objects, and named ones, of which a string tells the name. */
function properties(list: readonly Property[]): Buffer {
  const written = list.map(([id, value]) => {
    const tag = (type: number) => u32(((id << 16) | type) >>> 0);
    const counted = (octets: Buffer) => [u32(1), u32(octets.length), padded(octets)];
    if (typeof value === "string") return [tag(0x1f), ...counted(utf16(value))];
    if (typeof value === "number") return [tag(0x03), u32(value)];
    if (Buffer.isBuffer(value)) return [tag(0x102), ...counted(value)];
    if ("object" in value) return [tag(0x0d), ...counted(value.object)];
    const name = utf16(value.named);
    return [
      tag(0x101e),
      Buffer.alloc(16),
      u32(1),
      u32(name.length),
      padded(name),
      u32(2),
      u32(2),
      padded(Buffer.from("a\0")),
      u32(2),
      padded(Buffer.from("b\0")),
    ];
  });
  return Buffer.concat([u32(list.length), ...written.flat()]);
}

export interface WrittenFile {
  /** In the code page of the message, as attAttachTitle. */
  title?: string;
  content?: Buffer;
  properties?: Property[];
}

export interface WrittenTnef {
  codepage?: number;
  messageClass?: string;
  body?: Buffer;
  properties?: Property[];
  files?: WrittenFile[];
}

export function tnef({
  codepage = 1252,
  messageClass = "IPM.Note",
  body,
  properties: own = [],
  files = [],
}: WrittenTnef): Buffer {
  return Buffer.concat([
    u32(0x223e9f78),
    Buffer.from([1, 0]),
    attribute(1, 0x89006, u32(0x10000)),
    attribute(1, 0x69007, Buffer.concat([u32(codepage), u32(0)])),
    attribute(1, 0x78008, Buffer.from(`${messageClass}\0`)),
    ...(body ? [attribute(1, 0x2800c, body)] : []),
    attribute(1, 0x69003, properties([[0x8001, { named: "Keywords" }], ...own])),
    ...files.flatMap(({ title, content, properties: ofFile }) => [
      attribute(2, 0x69002, Buffer.alloc(14)),
      ...(title === undefined ? [] : [attribute(2, 0x18010, Buffer.from(`${title}\0`, "latin1"))]),
      ...(content ? [attribute(2, 0x6800f, content)] : []),
      ...(ofFile ? [attribute(2, 0x69005, properties(ofFile))] : []),
    ]),
  ]);
}

/** The data of a message that is attached to another one. */
export const attachedMessage = (message: WrittenTnef): { object: Buffer } => ({
  object: Buffer.concat([Buffer.from("0703020000000000c000000000000046", "hex"), tnef(message)]),
});

const WINDOW =
  "{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

/** Compresses RTF (MS-OXRTFCP) with references to all that was written before, also to what they are writing. */
export function compressedRtf(rtf: string): Buffer {
  const octets = Buffer.from(WINDOW + rtf, "latin1");
  const runs: Buffer[] = [];
  let control = 0;
  let run: Buffer[] = [];
  const put = (piece: Buffer, isReference: boolean): void => {
    if (isReference) control |= 1 << run.length;
    run.push(piece);
    if (run.length < 8) return;
    runs.push(Buffer.from([control]), ...run);
    [control, run] = [0, []];
  };
  const reference = (from: number, length: number): Buffer => {
    const written = ((from % 4_096) << 4) | (length - 2);
    return Buffer.from([written >> 8, written & 0xff]);
  };
  let at = WINDOW.length;
  while (at < octets.length) {
    let [best, from] = [0, 0];
    for (let start = Math.max(0, at - 4_095); start < at && best < 17; start++) {
      let length = 0;
      while (length < 17 && at + length < octets.length && octets[start + length] === octets[at + length]) length++;
      if (length > best) [best, from] = [length, start];
    }
    if (best < 2) put(octets.subarray(at, ++at), false);
    else {
      put(reference(from, best), true);
      at += best;
    }
  }
  put(reference(at, 2), true);
  if (run.length > 0) runs.push(Buffer.from([control]), ...run);
  const body = Buffer.concat(runs);
  return Buffer.concat([u32(body.length + 12), u32(rtf.length), u32(0x75465a4c), u32(0), body]);
}
