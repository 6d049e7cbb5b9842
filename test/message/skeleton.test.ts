import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { constants, crc32, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { parseMessage } from "../../src/message/parse.ts";
import {
  countOctets,
  cutSkeleton,
  DamagedSkeleton,
  type EncodedPart,
  MOST_OCTETS,
  packSkeleton,
  readOctets,
  type Skeleton,
  streamOctets,
  unpackSkeleton,
} from "../../src/message/skeleton.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { tnef } from "../harness/mail/tnef.ts";
import { runs } from "../harness/runs.ts";

/** Bytes that look random, the same for the same seed. */
function noise(size: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0, state = seed; i < size; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** Base64 in lines, without an end of the last; in a single one for 0. */
function base64(content: Uint8Array, lineLength = 76, lineEnd = "\r\n"): string {
  const digits = Buffer.from(content).toString("base64");
  return lineLength === 0 ? digits : (digits.match(new RegExp(`.{1,${lineLength}}`, "g")) ?? []).join(lineEnd);
}

/** A message of texts and attachments, in order. */
function join(...sections: (string | { content: Uint8Array; encoded: string; position?: number })[]) {
  const parts: EncodedPart[] = [];
  const written: Buffer[] = [];
  let length = 0;
  for (const section of sections) {
    const bytes = Buffer.from(typeof section === "string" ? section : section.encoded, "latin1");
    if (typeof section !== "string") {
      const { content, position = parts.length } = section;
      parts.push({ position, start: length, end: length + bytes.length, content });
    }
    written.push(bytes);
    length += bytes.length;
  }
  return { octets: Buffer.concat(written), parts };
}

const readFrom =
  (contents: ReadonlyMap<number, Uint8Array>) =>
  (position: number, from: number, to: number): Promise<Uint8Array> => {
    const content = contents.get(position);
    if (content === undefined) throw new Error(`no attachment ${position}`);
    expect(from).toBeLessThanOrEqual(to);
    expect(to).toBeLessThanOrEqual(content.length);
    return Promise.resolve(content.subarray(from, to));
  };
const contentsIn = (parts: readonly EncodedPart[]) =>
  new Map(parts.map(({ position, content }) => [position, content]));

/** Cuts octets, packs, unpacks and reads them, which must give the same; returns the skeleton. */
async function checkWhole({ octets, parts }: { octets: Uint8Array; parts: readonly EncodedPart[] }): Promise<Skeleton> {
  const skeleton = cutSkeleton(octets, parts);
  const unpacked = unpackSkeleton(packSkeleton(skeleton), octets.length);
  expect(unpacked.cuts).toEqual(skeleton.cuts);
  expect(Buffer.from(unpacked.bytes).equals(Buffer.from(skeleton.bytes))).toBe(true);
  expect(countOctets(unpacked.bytes.length, unpacked.cuts)).toBe(octets.length);
  const whole = await readOctets(unpacked, readFrom(contentsIn(parts)));
  expect(Buffer.from(whole).equals(Buffer.from(octets))).toBe(true);
  return skeleton;
}

const HEADER = "Subject: Plans\r\nMIME-Version: 1.0\r\n\r\n";
const TAIL = "\r\n--b--\r\n";

describe("what is cut", () => {
  const content = noise(5_000);

  test("base64 in lines of any groups of four, with either line end, and content that stands as it is", async () => {
    for (const lineEnd of ["\r\n", "\n"] as const) {
      for (const lineLength of [4, 60, 64, 72, 76, 996, 6_664]) {
        const message = join(HEADER, { content, encoded: base64(content, lineLength, lineEnd) }, TAIL);
        const { bytes, cuts } = await checkWhole(message);
        expect(Buffer.from(bytes).toString()).toBe(HEADER + TAIL);
        expect(cuts).toEqual([{ at: HEADER.length, position: 0, size: 5_000, lineLength, lineEnd }]);
      }
    }
    const { bytes, cuts } = await checkWhole(join(HEADER, { content, encoded: content.toString("latin1") }, TAIL));
    expect(Buffer.from(bytes).toString()).toBe(HEADER + TAIL);
    expect(cuts).toMatchObject([{ size: 5_000, lineLength: 0 }]);
  });

  test("a single line of base64, whatever its length", async () => {
    for (const size of [1_024, 1_025, 1_026, 300_001]) {
      const line = noise(size);
      const { cuts } = await checkWhole(join(HEADER, { content: line, encoded: base64(line, 0) }));
      expect(cuts).toMatchObject([{ size, lineLength: 4 * Math.ceil(size / 3) }]);
    }
  });

  test("all but what stands around base64", async () => {
    for (const padded of [content, noise(5_001), noise(5_002)]) {
      const section = { content: padded, encoded: `\r\n \n${base64(padded)}\r\n\r\n  \n` };
      const { bytes } = await checkWhole(join(HEADER, section, TAIL));
      expect(Buffer.from(bytes).toString()).toBe(`${HEADER}\r\n \n\r\n\r\n  \n${TAIL}`);
    }
  });

  test("nothing that does not come back exactly", async () => {
    const lines = base64(content).split("\r\n");
    const change = (at: number, line: string) => lines.with(at, line).join("\r\n");
    const last = lines.at(-1) ?? "";
    const urlSafe = base64(content).replaceAll("+", "-").replaceAll("/", "_");
    const changed = {
      "odd line lengths": base64(content, 75),
      "a shorter line": change(3, lines[3]?.slice(4) ?? ""),
      "a longer line": change(3, `${lines[3]}AAAA`),
      "a line end of another kind": base64(content).replace(/(?<=(?:.*\r\n){5}.*)\r\n/, "\n"),
      "returns alone": base64(content, 76, "\r"),
      "a space at the end of a line": change(4, `${lines[4]} `),
      "a blank line": change(4, `\r\n${lines[4]}`),
      "no padding": change(-1, last.replaceAll("=", "")),
      "bits in the padding": base64(noise(5_001)).slice(0, -2),
      "another alphabet": urlSafe,
      "its end is missing": base64(content).slice(0, -8),
      "another content": base64(noise(5_000, 2)),
      nothing: "",
      "blank lines alone": "\r\n\r\n",
    };
    expect(last).toEndWith("=");
    expect(urlSafe).not.toBe(base64(content));
    for (const [what, encoded] of Object.entries(changed)) {
      const message = join(HEADER, { content, encoded }, TAIL);
      expect([what, (await checkWhole(message)).cuts]).toEqual([what, []]);
    }
    // The lowest bits of the last digit before the padding stand for nothing.
    const twin = last.replace(
      /(.)(=+)$/,
      (_, digit: string, padding: string) => String.fromCharCode(digit.charCodeAt(0) + 1) + padding,
    );
    expect(Buffer.from(change(-1, twin), "base64").equals(content)).toBe(true);
    expect((await checkWhole(join({ content, encoded: change(-1, twin) }))).cuts).toEqual([]);
  });

  test("no small content, for which another file would be read", async () => {
    for (const [size, count] of [
      [0, 0],
      [1, 0],
      [1_023, 0],
      [1_024, 1],
    ] as const) {
      const small = noise(size);
      for (const encoded of [base64(small), small.toString("latin1")]) {
        const message = join(HEADER, { content: small, encoded }, TAIL);
        const skeleton = await checkWhole(message);
        expect(skeleton.cuts).toHaveLength(count);
        if (count === 0) expect(skeleton.bytes).toBe(message.octets);
      }
    }
  });

  test("the same content twice, a position twice, neighbours, in any order", async () => {
    const twice = { content, encoded: base64(content) };
    const message = join(HEADER, twice, TAIL, twice, { ...twice, encoded: base64(content, 64, "\n"), position: 0 });
    const { cuts } = await checkWhole({ ...message, parts: message.parts.toReversed() });
    expect(cuts.map(({ position, at }) => [position, at])).toEqual([
      [0, HEADER.length],
      [1, HEADER.length + TAIL.length],
      [0, HEADER.length + TAIL.length],
    ]);
  });

  test("of more attachments than any message has, as many as are unpacked", async () => {
    const small = { content: content.subarray(0, 1_024), encoded: base64(content.subarray(0, 1_024)) };
    expect((await checkWhole(join(...Array<typeof small>(10_001).fill(small)))).cuts).toHaveLength(10_000);
  });

  test("one of two that overlap: the first that comes back", async () => {
    const { octets, parts } = join(HEADER, { content, encoded: base64(content) }, TAIL);
    const original = { position: 1, start: 0, end: octets.length, content: octets };
    const whole = await checkWhole({ octets, parts: [...parts, original] });
    expect(whole.cuts).toMatchObject([{ at: 0, position: 1, size: octets.length, lineLength: 0 }]);
    expect(whole.bytes).toHaveLength(0);
    const other = { ...original, content: Buffer.from(octets).fill(0, 0, 1) };
    expect((await checkWhole({ octets, parts: [...parts, other] })).cuts).toMatchObject([{ position: 0 }]);
  });

  test("any octets come back, whatever was done to base64", async () => {
    const section = fc
      .record({
        size: fc.oneof(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 1_020, max: 1_400 })),
        seed: fc.nat(),
        lineLength: fc.oneof(fc.constantFrom(0, 4, 8, 60, 76), fc.integer({ min: 1, max: 998 })),
        lineEnd: fc.constantFrom("\r\n", "\n"),
        before: fc.constantFrom("", "\r\n", "\n \t", "x"),
        after: fc.constantFrom("", "\r\n", "\n\n", "=", "A", "\r\nfooter", " "),
        edits: fc.array(
          fc.record({
            at: fc.double({ min: 0, max: 1, noNaN: true }),
            cut: fc.nat(3),
            put: fc.constantFrom("", " ", "\r\n", "\n", "=", "A", "AAAA", "-", "\0", "\xff"),
          }),
          { maxLength: 2 },
        ),
        decode: fc.boolean(),
      })
      .map(({ size, seed, lineLength, lineEnd, before, after, edits, decode }) => {
        const content = noise(size, seed);
        let encoded = before + base64(content, lineLength, lineEnd) + after;
        for (const { at, cut, put } of edits) {
          const offset = Math.floor(at * encoded.length);
          encoded = encoded.slice(0, offset) + put + encoded.slice(offset + cut);
        }
        const isWhole = size >= 1_024 && edits.length === 0 && before !== "x" && lineLength % 4 === 0;
        return { content: decode ? Buffer.from(encoded, "base64") : content, encoded, isWhole: isWhole && !decode };
      });
    const text = fc.constantFrom("", HEADER, TAIL, "\n", "QUJD");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, section), { maxLength: 4 }), async (sections) => {
        const { cuts } = await checkWhole(join(...sections.flat()));
        const wanted = sections.flatMap(([, { isWhole }], position) => (isWhole ? [position] : []));
        expect(cuts.map(({ position }) => position)).toEqual(expect.arrayContaining(wanted));
      }),
      { numRuns: runs(600), seed: 20_261_130 },
    );
  });
});

describe("what is read", () => {
  const [lines, plain, short, single] = [noise(1_500), noise(1_100, 2), noise(1_030, 3), noise(1_025, 4)];
  const message = join(
    HEADER,
    { content: lines, encoded: base64(lines) },
    TAIL,
    { content: plain, encoded: plain.toString("latin1") },
    { content: short, encoded: base64(short, 4, "\n") },
    { content: single, encoded: base64(single, 0) },
  );
  const { octets, parts } = message;
  const skeleton = cutSkeleton(octets, parts);
  const contents = contentsIn(parts);

  test("any range, from the content that it needs", async () => {
    expect(skeleton.cuts).toHaveLength(4);
    for (let start = 0; start <= octets.length; start++) {
      for (const length of [0, 1, 2, 3, 5, 79, (start * 7_919) % octets.length]) {
        const end = start + length;
        let needed = 0;
        const range = await readOctets(
          skeleton,
          (position, from, to) => {
            needed += to - from;
            return readFrom(contents)(position, from, to);
          },
          start,
          end,
        );
        if (!Buffer.from(range).equals(octets.subarray(start, end))) throw new Error(`octets ${start} to ${end}`);
        // Of each part three bytes around.
        if (needed > range.length + 4 * 6) throw new Error(`${needed} bytes for octets ${start} to ${end}`);
      }
    }
    expect(await readOctets(skeleton, readFrom(contents), octets.length + 10)).toHaveLength(0);
    expect(await readOctets(skeleton, readFrom(contents), 10, 5)).toHaveLength(0);
  });

  test("large octets in pieces", async () => {
    const [large, text] = [noise(1_000_000), "x".repeat(600_000)];
    for (const encoded of [base64(large), base64(large, 0), large.toString("latin1")]) {
      const whole = join(text, { content: large, encoded }, text);
      const most = { piece: 0, content: 0 };
      const hash = createHash("sha256");
      const read = (position: number, from: number, to: number) => {
        most.content = Math.max(most.content, to - from);
        return readFrom(contentsIn(whole.parts))(position, from, to);
      };
      for await (const piece of streamOctets(cutSkeleton(whole.octets, whole.parts), read)) {
        most.piece = Math.max(most.piece, piece.length);
        hash.update(piece);
      }
      expect(hash.digest("hex")).toBe(createHash("sha256").update(whole.octets).digest("hex"));
      expect(most.piece).toBe(256 * 1024);
      expect(most.content).toBeLessThanOrEqual(256 * 1024);
    }
  });

  test("no octets of content with another size", async () => {
    for (const change of [-1, 1]) {
      const read = (_position: number, from: number, to: number) => Promise.resolve(noise(to - from + change));
      expect(readOctets(skeleton, read)).rejects.toThrow(DamagedSkeleton);
    }
    expect(readOctets(skeleton, () => Promise.reject(new Error("no disk")))).rejects.toThrow("no disk");
  });
});

describe("what is packed", () => {
  const content = noise(2_000);
  const { octets, parts } = join(
    `${HEADER}Hello, it is all in the attachment. Best regards\r\n`,
    { content, encoded: base64(content) },
    TAIL,
    { content, encoded: content.toString("latin1") },
  );
  const skeleton = cutSkeleton(octets, parts);
  const packed = packSkeleton(skeleton);
  const damaged = (bytes: Uint8Array, size = octets.length) =>
    expect(() => unpackSkeleton(bytes, size)).toThrow(DamagedSkeleton);

  /** A pack with a right checksum around a frame that has, or claims to have, `size` bytes. */
  const forgeFrame = (frame: Uint8Array, size: number) => {
    const length = [0, 7, 14, 21, 28].map((shift) => (Math.floor(size / 2 ** shift) % 0x80) + (shift < 28 ? 0x80 : 0));
    const body = Buffer.concat([Buffer.from(length), frame]);
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32LE(crc32(body));
    return Buffer.concat([Buffer.from([1]), checksum, body]);
  };
  /** A pack with these numbers before the bytes. */
  const forge = (numbers: readonly number[], bytes = "abc", size?: number) => {
    const inside = Buffer.concat([Buffer.from(numbers), Buffer.from(bytes)]);
    return forgeFrame(zstdCompressSync(inside), size ?? inside.length);
  };

  test("takes less than its frame alone would", () => {
    expect(packed.length).toBeLessThan(zstdCompressSync(skeleton.bytes).length);
    expect(packed.length).toBeLessThan(100);
  });

  test("an empty message is one, too", async () => {
    expect((await checkWhole({ octets: new Uint8Array(), parts: [] })).cuts).toEqual([]);
  });

  test("numbers of every length", async () => {
    const large = noise(200_000);
    const written = base64(large, 0);
    for (const gap of [0, 127, 128, 16_383, 16_384, 3_000_000]) {
      const section = { content: large, encoded: written, position: gap };
      expect((await checkWhole(join("x".repeat(gap), section))).cuts).toMatchObject([{ at: gap, position: gap }]);
    }
  });

  test("nothing that was cut off or changed", () => {
    for (let at = 0; at < packed.length; at++) {
      damaged(packed.subarray(0, at));
      damaged(packed.subarray(at + 1));
      for (let bit = 0; bit < 8; bit++) {
        const changed = Buffer.from(packed);
        changed[at] = (changed[at] as number) ^ (1 << bit);
        damaged(changed);
      }
    }
    damaged(Buffer.concat([packed, packed]));
    damaged(Buffer.concat([packed, Buffer.alloc(1)]));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => damaged(bytes)),
      { seed: 1 },
    );
  });

  test("wrong numbers are refused", () => {
    expect(unpackSkeleton(forge([1, 3, 0, 9, 4]), 3 + 16).cuts).toEqual([
      { at: 3, position: 0, size: 9, lineLength: 4, lineEnd: "\r\n" },
    ]);
    // The octets of a message with "abc" and, where there is a cut, 12 digits in three lines.
    const [bare, cut] = [3, 3 + 16];
    const wrong: Record<string, [packed: Uint8Array, size: number]> = {
      "another version": [Buffer.concat([Buffer.from([2]), packed.subarray(1)]), octets.length],
      "a cut beyond the end": [forge([1, 4, 0, 9, 4]), cut],
      "no size": [forge([1, 0, 0, 0, 4]), bare],
      "no line end of ours": [forge([1, 0, 0, 9, 6]), cut],
      "more cuts than there are": [forge([2, 0, 0, 9, 4], ""), cut],
      "too many cuts": [forge([0xff, 0x7f], "\0\0\x09\x04".repeat(16_383)), MOST_OCTETS],
      "a number without end": [forge([...Array<number>(300).fill(0x80), 0]), bare],
      "a number that is too large": [forge([1, 0, 0, ...Array<number>(8).fill(0xff), 0x7f, 4]), MOST_OCTETS],
      "a message that is too large": [forge([1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 4]), MOST_OCTETS + 1],
      "less than its length": [forge([0], "abc", 5), bare],
      "more than its length": [forge([0], "abc", 3), bare],
      "a length of nothing": [forge([0], "abc", 0), bare],
      "a smaller message": [forge([0]), bare + 1],
      "a larger message": [forge([0]), bare - 1],
      "a smaller message with a cut": [forge([1, 3, 0, 9, 4]), cut + 1],
      "a larger message with a cut": [forge([1, 3, 0, 9, 4]), cut - 1],
    };
    for (const [what, [bytes, size]] of Object.entries(wrong)) {
      expect(() => unpackSkeleton(bytes, size), what).toThrow(DamagedSkeleton);
    }
  });

  test("a frame that has more than it says takes no memory, nor does one with a large window", () => {
    const bomb = zstdCompressSync(Buffer.alloc(64 * 1024 * 1024));
    const before = process.memoryUsage.rss();
    damaged(forgeFrame(bomb, 1_024), 1_023);
    expect(() => unpackSkeleton(forgeFrame(bomb, 2 ** 31), MOST_OCTETS + 1)).toThrow("too large");
    // It says what it has, but the message has less, or its reader takes less.
    expect(() => unpackSkeleton(forgeFrame(bomb, 64 * 1024 * 1024), 100)).toThrow("too large");
    expect(() => unpackSkeleton(forgeFrame(bomb, 64 * 1024 * 1024), 64 * 1024 * 1024 - 1, 1_024)).toThrow("too large");
    expect(process.memoryUsage.rss() - before).toBeLessThan(32 * 1024 * 1024);
    const [inside, params] = [Buffer.alloc(16 * 1024 * 1024), { [constants.ZSTD_c_windowLog]: 24 }];
    damaged(forgeFrame(zstdCompressSync(inside, { params }), inside.length), inside.length - 1);
    const { bytes } = unpackSkeleton(forgeFrame(zstdCompressSync(inside), inside.length), inside.length - 1);
    expect(bytes).toHaveLength(inside.length - 1);
  });

  test("what version 1 packed is read for ever", async () => {
    const old = Buffer.from(
      "AfByl1RrKLUv/SBr9QEAJAICVwDQD0wJAdAPAFBsYW5zDQosbGxlLg0KDQotLWItLQ0KCABu5iN5pLmIdDCcLiJuxZUzL7zj17vieQE=",
      "base64",
    );
    const read = await readOctets(unpackSkeleton(old, octets.length), readFrom(contentsIn(parts)));
    expect(Buffer.from(read).equals(octets)).toBe(true);
    const dictionary = await Bun.file(new URL("../../src/message/skeleton-dictionary-1.txt", import.meta.url)).bytes();
    expect(createHash("sha256").update(dictionary).digest("hex")).toBe(
      "be77af603815655849908460f64613335b1c85e4774946e21445a65d18ea8726",
    );
  });
});

describe("parsed messages", () => {
  const partsIn = async (octets: Uint8Array): Promise<EncodedPart[]> =>
    (await parseMessage(octets)).attachments.flatMap(({ content, source }, position) =>
      source === undefined ? [] : [{ position, content, ...source }],
    );

  test("attachments are found in the octets, in multiparts inside of each other, too", async () => {
    const [file, image, text] = [noise(3_000), noise(2_000, 2), "A line.\r\n".repeat(200)];
    const inner = `Content-Type: multipart/related; boundary="i"\r\n\r\n--i\r\nContent-Type: text/html\r\n\r\n<p>Hello\r\n--i\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(image)}\r\n--i\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(image, 64, "\n")}\r\n\r\n--i--\r\n`;
    const octets = Buffer.from(
      `From: a@example.com\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="o"\r\n\r\n--o\r\n${inner}\r\n--o\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(file)}\r\n--o\r\nContent-Disposition: attachment; filename="log.txt"\r\n\r\n${text}\r\n--o--\r\n`,
    );
    const { cuts, bytes } = await checkWhole({ octets, parts: await partsIn(octets) });
    expect(cuts).toMatchObject([
      { position: 0, size: 2_000, lineLength: 76 },
      { position: 1, size: 2_000, lineLength: 64, lineEnd: "\n" },
      { position: 2, size: 3_000, lineLength: 76 },
      { position: 3, size: text.length, lineLength: 0 },
    ]);
    expect(bytes.length).toBeLessThan(1_000);
  });

  test("files of forms are not in the octets", async () => {
    const written = tnef({ files: [{ title: "a.bin", content: noise(3_000) }] });
    const octets = Buffer.from(
      `MIME-Version: 1.0\r\nContent-Type: application/ms-tnef; name="winmail.dat"\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(written)}\r\n`,
    );
    const { attachments } = await parseMessage(octets);
    expect(attachments.map(({ filename, source }) => [filename, source])).toEqual([["a.bin", undefined]]);
    expect((await checkWhole({ octets, parts: await partsIn(octets) })).cuts).toEqual([]);
  });

  test("the original that is attached stands for all of the message", async () => {
    const octets = Buffer.from(
      `MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="o"\r\n\r\n${"Nobody is to miss this. ".repeat(60)}\r\n--o\r\n\r\nHello\r\n--o--\r\n`,
    );
    const { cuts, bytes } = await checkWhole({ octets, parts: await partsIn(octets) });
    expect(cuts).toMatchObject([{ at: 0, size: octets.length, lineLength: 0 }]);
    expect(bytes).toHaveLength(0);
  });

  test.skipIf(!corpusPresent)(`every message of other projects comes back${corpusNote}`, async () => {
    const forms = new Map<string, number>();
    let [whole, packed] = [0, 0];
    for (const [index, { name, bytes }] of corpusFiles().entries()) {
      const text = Buffer.from(bytes).toString("latin1");
      const octets = index % 2 === 0 ? bytes : Buffer.from(text.replace(/\r?\n/g, "\r\n"), "latin1");
      try {
        const skeleton = await checkWhole({ octets, parts: await partsIn(octets) });
        for (const { lineLength, lineEnd } of skeleton.cuts) {
          const form = lineLength === 0 ? "as it is" : `base64 ${lineEnd === "\n" ? "LF" : "CRLF"}`;
          forms.set(form, (forms.get(form) ?? 0) + 1);
        }
        whole += octets.length;
        packed += packSkeleton(skeleton).length;
      } catch (error) {
        throw new Error(name, { cause: error });
      }
    }
    for (const form of ["as it is", "base64 LF", "base64 CRLF"]) expect(forms.get(form)).toBeGreaterThan(10);
    expect(packed).toBeLessThan(0.35 * whole);
  });
});
