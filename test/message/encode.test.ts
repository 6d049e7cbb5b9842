import { expect, test } from "bun:test";
import fc from "fast-check";
import { decodeQuotedPrintable } from "../../src/message/decode.ts";
import { base64Length, encodeBase64, encodeQuotedPrintable } from "../../src/message/encode.ts";
import { parseMessage } from "../../src/message/parse.ts";

/** Text of any octets, with words, ends of lines and what is encoded at the ends of a line alone. */
const anyText = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 90 }).map((octets) => Buffer.from(octets).toString("latin1")),
      fc.constantFrom(
        "\r\n",
        "\r\n",
        " \r\n",
        ".",
        "--",
        "From ",
        "\r",
        "\n",
        " ",
        "\t",
        "=".repeat(80),
        "x".repeat(76),
      ),
    ),
    { maxLength: 30 },
  )
  .map((pieces) => Buffer.from(pieces.join(""), "latin1"));

test("quoted-printable of any octets decodes to them, in lines of 76 characters that nothing mistakes", () => {
  fc.assert(
    fc.property(anyText, (octets) => {
      const encoded = encodeQuotedPrintable(octets);
      expect(decodeQuotedPrintable(encoded).equals(octets)).toBe(true);
      for (const line of encoded.toString("latin1").split("\r\n")) {
        expect(line.length).toBeLessThanOrEqual(76);
        expect(line).toMatch(/^(?!\.|--|From )[\t -~]*$/);
        expect(line).not.toMatch(/[ \t]$/);
      }
    }),
    { numRuns: 1_000 },
  );
});

test("base64 of any octets is that of the platform, in lines of 76 characters", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), (octets) => {
      const encoded = encodeBase64(Buffer.from(octets)).toString();
      expect(encoded.replaceAll("\r\n", "")).toBe(Buffer.from(octets).toString("base64"));
      expect(encoded.length).toBeLessThanOrEqual(base64Length(octets.length));
      expect(
        encoded
          .split("\r\n")
          .slice(0, -1)
          .every(({ length }) => length === 76),
      ).toBe(true);
    }),
  );
});

test("base64 of a large file decodes to it, whatever stands between its digits", async () => {
  const octets = Uint8Array.from({ length: 200_000 }, (_, n) => (n * n) % 251);
  const encoded = encodeBase64(Buffer.from(octets)).toString();
  const head = "Content-Type: application/x-any; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n";
  // It begins as base64.
  const anywhere = fc.integer({ min: 78, max: encoded.length - 3 });
  const places = fc.uniqueArray(fc.oneof(anywhere, fc.integer({ min: 65_530, max: 65_545 })), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(places, fc.constantFrom("!", "\r\n", " ", "\v", "é", "=!"), async (at, foreign) => {
      let text = encoded;
      // At the beginning of a group, an equals sign is no padding.
      for (const place of at.toSorted((a, b) => b - a)) {
        const before = text.slice(0, place - (place % 78) + 4 * Math.floor((place % 78) / 4));
        text = before + foreign + text.slice(before.length);
      }
      const { attachments } = await parseMessage(Buffer.from(head + text, "latin1"));
      expect(Buffer.compare(attachments[0]?.content ?? new Uint8Array(), octets)).toBe(0);
    }),
    { numRuns: 50 },
  );
});
