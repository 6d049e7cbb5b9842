/** winmail.dat (rules: Forms of mail). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { composeMessage } from "../../src/message/compose.ts";
import { type ParsedMessage, parseMessage } from "../../src/message/parse.ts";
import { readTnef } from "../../src/message/tnef.ts";
import {
  attachedMessage,
  attribute,
  compressedRtf,
  type Property,
  tnef,
  type WrittenTnef,
} from "../harness/mail/tnef.ts";

const [BODY, RTF, HTML, DATA, FILENAME, LONG_NAME, MIME_TYPE, CONTENT_ID] = [
  0x1000, 0x1009, 0x1013, 0x3701, 0x3704, 0x3707, 0x370e, 0x3712,
];

/** HTML as Exchange encapsulates it (MS-OXRTFEX). */
const ENCAPSULATED = String.raw`{\rtf1\ansi\ansicpg1252\fromhtml1 \deff0{\fonttbl{\f0\fswiss Arial;}{\f1\fnil\fcharset204 Arial;}}
{\colortbl\red0\green0\blue0;}{\*\generator x;}
{\*\htmltag19 <html>}{\*\htmltag64 <p style="color:red">}\htmlrtf \f0 {\htmlrtf0 Gr\'fc\'dfe \{1\} {\*\htmltag84 &lt;}\htmlrtf <\htmlrtf0 2, \f1\'cf\f0, \u8364 ?\line
{\*\mhtmltag84 <a href="x">}{\*\htmltag72 </p>\par }\htmlrtf }\htmlrtf0 {\*\htmltag27 </html>}}`;
const UNWRAPPED = '<html><p style="color:red">Grüße {1} &lt;2, П, €\n</p>\n</html>';

async function parse(written: WrittenTnef | Buffer, text?: string): Promise<ParsedMessage> {
  const octets = Buffer.isBuffer(written) ? written : tnef(written);
  const lines = [
    "From: ann@a.example",
    "Content-Type: multipart/mixed; boundary=b",
    "",
    ...(text === undefined ? [] : ["--b", "Content-Type: text/plain; charset=utf-8", "", text]),
    "--b",
    "Content-Type: application/ms-tnef; name=winmail.dat",
    "Content-Transfer-Encoding: base64",
    "",
    octets.toString("base64").replace(/.{76}/g, "$&\r\n"),
    "--b--",
    "",
  ];
  return parseMessage(Buffer.from(lines.join("\r\n")));
}
const files = ({ attachments }: ParsedMessage) =>
  attachments.map(({ filename, contentType, content }) => [filename, contentType, Buffer.from(content).toString()]);

describe("a body becomes the text:", () => {
  test.each<[what: string, written: WrittenTnef, text: string, html: string | undefined]>([
    ["Unicode", { properties: [[BODY, "Grüße ✓\r\nAnn"]] }, "Grüße ✓\nAnn", undefined],
    [
      "in the code page",
      { codepage: 1251, body: Buffer.from("\xcf\xf0\xe8\xe2\xe5\xf2\0", "latin1") },
      "Привет",
      undefined,
    ],
    ["in UTF-8", { codepage: 65_001, body: Buffer.from("Grüße") }, "Grüße", undefined],
    ["HTML", { properties: [[HTML, Buffer.from("<p>Grüße</p>")]] }, "Grüße", "<p>Grüße</p>"],
    [
      "HTML in a code page",
      {
        properties: [
          [0x3fde, 1252],
          [HTML, Buffer.from("<p>Gr\xfc\xdfe</p>", "latin1")],
        ],
      },
      "Grüße",
      "<p>Grüße</p>",
    ],
    [
      "text and HTML",
      {
        properties: [
          [BODY, "Hi"],
          [HTML, Buffer.from("<b>Hi</b>")],
        ],
      },
      "Hi",
      "<b>Hi</b>",
    ],
    [
      "RTF",
      { properties: [[RTF, compressedRtf("{\\rtf1\\ansi Gr\\'fc\\'dfe\\par {\\b Ann}}")]] },
      "Grüße\nAnn",
      undefined,
    ],
    ["HTML in RTF", { properties: [[RTF, compressedRtf(ENCAPSULATED)]] }, "Grüße {1} <2, П, €", UNWRAPPED],
    [
      "text beside HTML in RTF",
      {
        properties: [
          [BODY, "Hi"],
          [RTF, compressedRtf(ENCAPSULATED)],
        ],
      },
      "Hi",
      UNWRAPPED,
    ],
  ])("%s", async (_, written, text, html) => {
    const message = await parse(written);
    expect([message.text, message.html, message.attachments, message.problem]).toEqual([text, html, [], undefined]);
  });

  test("once, where it stands beside winmail.dat as well", async () => {
    const written = { properties: [[BODY, "Good morning,\r\n\r\nit is there."]] as Property[] };
    expect((await parse(written, "Good morning, it is there!")).text).toBe("Good morning, it is there!");
    expect((await parse(written, "See winmail.dat")).text).toBe("See winmail.dat\n\nGood morning,\n\nit is there.");
    expect((await parse(written, "Good morning, it is there!")).attachments).toEqual([]);
  });
});

describe("files become attachments:", () => {
  const content = Buffer.from("PNG");

  test.each<[what: string, file: NonNullable<WrittenTnef["files"]>[number], expected: [string, string]]>([
    ["by their title", { title: "Gr\xfc\xdfe.txt", content }, ["Grüße.txt", "text/plain"]],
    [
      "by their long name",
      { title: "ABCDEF~1.PDF", content, properties: [[LONG_NAME, "Абвгд ✓.pdf"]] },
      ["Абвгд ✓.pdf", "application/pdf"],
    ],
    ["by their short name", { content, properties: [[FILENAME, "A.BIN"]] }, ["A.BIN", "application/octet-stream"]],
    ["without a name", { content }, ["attachment-1.bin", "application/octet-stream"]],
    [
      "of a type",
      {
        content,
        properties: [
          [LONG_NAME, "a"],
          [MIME_TYPE, "image/PNG"],
        ],
      },
      ["a", "image/png"],
    ],
    [
      "with their data among the properties",
      {
        properties: [
          [LONG_NAME, "../a.gif"],
          [DATA, content],
        ],
      },
      ["a.gif", "image/gif"],
    ],
  ])("%s", async (_, file, [name, type]) => {
    expect(files(await parse({ files: [file] }))).toEqual([[name, type, "PNG"]]);
  });

  test("images stand in the text", async () => {
    const image = {
      content,
      properties: [
        [LONG_NAME, "a.png"],
        [CONTENT_ID, "<i@x>"],
      ] as Property[],
    };
    const { attachments, html } = await parse({
      properties: [[HTML, Buffer.from('<img src="cid:i@x">')]],
      files: [image],
    });
    expect(html).toBe('<img src="cid:i@x">');
    expect(attachments.map(({ contentId, inline, contentType }) => [contentId, inline, contentType])).toEqual([
      ["i@x", true, "image/png"],
    ]);
  });

  test("messages are messages, with their files, to a depth", async () => {
    const properties: Property[] = [
      [0x37, "Inner/Outer"],
      [0x0c1a, "Bob B"],
      [0x5d01, "bob@b.example"],
      [BODY, "Hello"],
    ];
    const inner = { properties, files: [{ title: "a.txt", content: Buffer.from("A") }] };
    const [file] = (await parse({ files: [{ properties: [[DATA, attachedMessage(inner)]] }] })).attachments;
    expect([file?.filename, file?.contentType]).toEqual(["Inner Outer.eml", "message/rfc822"]);
    const read = await parseMessage(file?.content ?? new Uint8Array());
    expect([read.subject, read.from, read.text]).toEqual([
      "Inner/Outer",
      { email: "bob@b.example", name: "Bob B" },
      "Hello",
    ]);
    expect(files(read)).toEqual([["a.txt", "text/plain", "A"]]);

    let nested: WrittenTnef = inner;
    for (let depth = 0; depth < 10; depth++) nested = { files: [{ properties: [[DATA, attachedMessage(nested)]] }] };
    expect((await parse(nested)).attachments).toHaveLength(1);
  });
});

describe("it is found", () => {
  const octets = tnef({ properties: [[BODY, "Hi"]] });
  test.each(["application/vnd.ms-tnef", "application/octet-stream; name=a.bin", "application/ms-tnef; name=x"])(
    "as %s, alone in the message",
    async (type) => {
      const mail = `From: a@b.example\r\nContent-Type: ${type}\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n${octets.toString("base64")}`;
      const { text, attachments } = await parseMessage(Buffer.from(mail));
      expect([text, attachments]).toEqual(["Hi", []]);
    },
  );
});

describe("it stays an attachment", () => {
  const kept = ["winmail.dat", "application/ms-tnef"];

  test.each<[what: string, octets: Buffer]>([
    ["where it is something else", Buffer.from("Hello")],
    ["where it holds nothing", tnef({})],
    ["where it is cut within its first attribute", tnef({}).subarray(0, 12)],
  ])("%s", async (_, octets) => {
    const message = await parse(octets);
    expect([message.text, files(message).map((file) => file.slice(0, 2))]).toEqual(["", [kept]]);
  });

  test("beside what could be read of it, or where it says more", async () => {
    const file = { title: "a.txt", content: Buffer.from("A") };
    const whole = tnef({ files: [file, file] });
    expect(files(await parse(whole.subarray(0, -10))).map(([name]) => name)).toEqual(["a.txt", "winmail.dat"]);
    const meeting = { messageClass: "IPM.Schedule.Meeting.Request", properties: [[BODY, "Come"]] as Property[] };
    const { text, attachments } = await parse(meeting);
    expect([text, attachments.map(({ filename }) => filename)]).toEqual(["Come", ["winmail.dat"]]);
  });
});

test("what is stored and read once more has nothing twice", async () => {
  const meeting = {
    messageClass: "IPM.Schedule.Meeting.Request",
    properties: [[BODY, "Come on Monday"]] as Property[],
    files: [{ title: "a.txt", content: Buffer.from("A") }],
  };
  const first = await parse(meeting);
  const again = await parseMessage(composeMessage({ id: "m", ...first }));
  expect([again.text, files(again).map(([name]) => name)]).toEqual(["Come on Monday", ["a.txt", "winmail.dat"]]);
});

describe("reading is bounded", () => {
  test("for any octets", () => {
    const rtf: Property = [RTF, compressedRtf(ENCAPSULATED)];
    const whole = tnef({
      properties: [rtf, [BODY, "x"]],
      files: [{ title: "a", properties: [[DATA, attachedMessage({ properties: [rtf] })]] }],
    });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { maxLength: 5 }),
        fc.nat(whole.length),
        (changes, length) => {
          const broken = Buffer.from(whole);
          for (const [at, octet] of changes) broken[at] = octet;
          readTnef(broken.subarray(0, length));
        },
      ),
      { numRuns: 500 },
    );
  });

  test("for counts and sizes that are not so", () => {
    const u32 = (...values: number[]) => Buffer.from(new Uint32Array(values).buffer);
    const most = 0xffffffff;
    for (const properties of [
      u32(most),
      u32(most, 0x1001, most),
      u32(1, 0x10001003, most),
      u32(1, 0x1009_0102, 1, most),
      u32(1, 0x1009_0102, most, 0),
    ]) {
      const octets = Buffer.concat([tnef({}), attribute(1, 0x69003, properties)]);
      expect(readTnef(octets)?.isWhole).toBe(false);
    }
    const header = u32(16, most, 0x75465a4c, 0);
    const many = Array.from({ length: 2_000 }, () => ({
      properties: [[DATA, attachedMessage({ properties: [[RTF, header]] })]] as Property[],
    }));
    const start = performance.now();
    expect(readTnef(tnef({ files: many }))).toMatchObject({ files: { length: 1_000 }, isWhole: false });
    expect(performance.now() - start).toBeLessThan(5_000);
  });
});

describe("compressed RTF", () => {
  const rtfOf = (octets: Buffer) => readTnef(tnef({ properties: [[RTF, octets]] }))?.text;

  test("is that of the specification's example", () => {
    const example =
      "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c09002062770 5b06c647d0a800fa0".replace(
        " ",
        "",
      );
    expect(rtfOf(Buffer.from(example, "hex"))).toBe("hello world");
  });

  test("may not be compressed", () => {
    const rtf = Buffer.from("{\\rtf1 Hi}");
    const header = Buffer.from(new Uint32Array([rtf.length + 12, rtf.length, 0x414c454d, 0]).buffer);
    expect(rtfOf(Buffer.concat([header, rtf]))).toBe("Hi");
  });

  test("is decompressed as it was, over the end of the window, too", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("ab ", "abc", "Hello world ", "\n\\par ", "x"), { minLength: 1, maxLength: 2_000 }),
        (words) => {
          const text = words.join("");
          expect(rtfOf(compressedRtf(`{\\rtf1 ${text}y}`))).toBe(`${text.replaceAll("\n\\par ", "\n")}y`);
        },
      ),
      { numRuns: 20 },
    );
  });
});
