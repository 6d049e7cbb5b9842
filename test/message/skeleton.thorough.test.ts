import { expect, test } from "bun:test";
import {
  cutSkeleton,
  type EncodedPart,
  packSkeleton,
  readOctets,
  type Skeleton,
  unpackSkeleton,
} from "../../src/message/skeleton.ts";
import { cpuTime, expectLinear } from "../harness/growth.ts";

const MB = 1_000_000;
/** Seconds of CPU that 50 MB may take, many times what they do. */
const MOST_SECONDS = 10;

interface Message {
  octets: Buffer;
  parts: EncodedPart[];
}

/** A message of `count` attachments, which are a part of `size` bytes each. `change`: what is done to the base64 of each. */
function makeMessage(size: number, count: number, lineLength: number, change = (encoded: Buffer) => encoded): Message {
  const content = Buffer.alloc(Math.floor(size / count), "Nothing of this is encrypted, and all is there.");
  const digits = content.toString("base64");
  const lines: string[] = [];
  for (let at = 0; at < digits.length; at += lineLength) lines.push(digits.slice(at, at + lineLength));
  const [header, encoded] = [Buffer.from("--b\r\nContent-Type: a/b\r\n\r\n"), change(Buffer.from(lines.join("\r\n")))];
  const section = header.length + encoded.length;
  const parts = Array.from({ length: count }, (_, position) => ({
    position,
    start: section * position + header.length,
    end: section * (position + 1),
    content,
  }));
  return { octets: Buffer.concat(Array.from({ length: count }, () => [header, encoded]).flat()), parts };
}

const roundTrip = async ({ octets, parts }: Message): Promise<Skeleton> => {
  const skeleton = unpackSkeleton(packSkeleton(cutSkeleton(octets, parts)), octets.length);
  const read = (position: number, from: number, to: number) =>
    Promise.resolve(parts[position]?.content.subarray(from, to) ?? new Uint8Array());
  const whole = await readOctets(skeleton, read);
  if (!octets.equals(whole)) throw new Error("other octets");
  return skeleton;
};

const withoutLast = (encoded: Buffer) => Buffer.from(encoded).fill("!", encoded.length - 1);

const SHAPES: Record<string, { count: number; make: (size: number, count: number) => Message; isCut: boolean }> = {
  "one attachment": { count: 1, make: (size, count) => makeMessage(size, count, 76), isCut: true },
  "lines of four": { count: 1, make: (size, count) => makeMessage(size, count, 4), isCut: true },
  "one line": { count: 1, make: (size, count) => makeMessage(size, count, size * 2), isCut: true },
  "10,000 attachments": { count: 10_000, make: (size, count) => makeMessage(size, count, 76), isCut: true },
  "attachments whose last octet is another": {
    count: 100,
    make: (size, count) => makeMessage(size, count, 76, withoutLast),
    isCut: false,
  },
};

test.each(Object.entries(SHAPES))("50 MB in seconds, and twice as many in twice the time: %s", async (_, shape) => {
  const { count, make, isCut } = shape;
  await expectLinear({
    make: (size) => make(size, count),
    sizes: [15 * MB, 30 * MB],
    work: (message) => cpuTime(() => roundTrip(message)),
    atMost: 3,
  });
  const message = make(36 * MB, count);
  expect(message.octets.length).toBeGreaterThan(47 * MB);
  const before = process.threadCpuUsage();
  expect((await roundTrip(message)).cuts).toHaveLength(isCut ? count : 0);
  const { user, system } = process.threadCpuUsage(before);
  expect((user + system) / MB).toBeLessThan(MOST_SECONDS);
});
