import { expect, test } from "bun:test";
import fc from "fast-check";
import { decodeQuotedPrintable } from "../../src/message/decode.ts";
import { base64Length, encodeBase64, encodeQuotedPrintable } from "../../src/message/encode.ts";

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
