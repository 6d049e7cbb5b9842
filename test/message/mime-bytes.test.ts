/** Compares with MimeNode's own way of building. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { addText, bytesOfNode, rootOf } from "../../src/message/compose.ts";

const LINE = fc.oneof(
  fc.string(),
  fc.string({ unit: "grapheme" }),
  fc.constantFrom(
    "",
    " ",
    "=",
    ".",
    "From x",
    "\t",
    "word ".repeat(40),
    "x".repeat(200),
    "ä".repeat(60),
    "😀é ".repeat(30),
  ),
);
const TEXT = fc.array(LINE, { maxLength: 12 }).map((lines) => lines.join("\n"));
const OCTETS = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.constantFrom(...["a\r", "a\n", "a\r\n", "\r", "\n"].map((text) => new Uint8Array(Buffer.from(text)))),
  fc.constantFrom(...[56, 57, 58, 57_000, 57_001, 114_000, 200_003].map((length) => new Uint8Array(length).fill(0xfe))),
);

/** A text, or a multipart of several. */
const BODY = fc.letrec<{ body: Body }>((tie) => ({
  body: fc.oneof(
    { depthSize: "small" },
    fc.record({ text: TEXT }),
    fc.record({ octets: OCTETS, encoding: fc.constantFrom("base64", "7bit", "8bit") }),
    fc.record({ parts: fc.array(tie("body"), { maxLength: 3 }) }),
  ),
})).body;
type Body = { text: string } | { octets: Uint8Array; encoding: string } | { parts: Body[] };

function put(parent: ReturnType<typeof rootOf>, body: Body): ReturnType<typeof rootOf> {
  if ("text" in body) return addText(parent, "text/plain", body.text);
  if ("octets" in body) {
    const node = parent.createChild("application/pdf", { filename: "a.pdf" });
    node.setHeader("Content-Transfer-Encoding", body.encoding);
    return node.setContent(Buffer.from(body.octets));
  }
  const node = parent.createChild("multipart/mixed");
  for (const part of body.parts) put(node, part);
  return node;
}

/** Soft line breaks of quoted-printable carry no content (RFC 2045 §6.7). */
const unbroken = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1").replaceAll("=\r\n", "");

const LONG = "Grüße, 10 < 100 = wenig. ".repeat(8_000);

test("gives the bytes of MimeNode's build for any tree", async () => {
  await fc.assert(
    fc.asyncProperty(BODY, async (body) => {
      expect(unbroken(bytesOfNode(put(rootOf("id"), body)))).toBe(unbroken(await put(rootOf("id"), body).build()));
    }),
    { examples: [[{ text: LONG }], [{ text: `${LONG}\n${LONG}` }], [{ parts: [{ text: LONG }, { text: "short" }] }]] },
  );
});

test("no line of quoted-printable is longer than 76 characters (RFC 2045 §6.7)", () => {
  fc.assert(
    fc.property(TEXT, (text) => {
      const source = bytesOfNode(put(rootOf("id"), { text })).toString("latin1");
      fc.pre(source.includes("quoted-printable"));
      expect(Math.max(...source.split("\r\n").map(({ length }) => length))).toBeLessThanOrEqual(76);
    }),
    { examples: [[LONG]] },
  );
});
