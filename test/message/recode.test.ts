import { describe, expect, test } from "bun:test";
import { isAscii } from "node:buffer";
import fc from "fast-check";
import { decodePartOctets } from "../../src/message/decode.ts";
import { decodeWords } from "../../src/message/headers.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { type Carriage, recodeForTransport, UNKNOWN_SERVER } from "../../src/message/recode.ts";
import { type Part, readStructure, walkLeafParts } from "../../src/message/structure.ts";
import { runs } from "../harness/runs.ts";

const SEVEN_BIT: Carriage = { eightBit: false, utf8: false };
const NO_UTF8: Carriage = { eightBit: true, utf8: false };

const bytes = (text: string) => Buffer.from(text.replace(/\r?\n/g, "\r\n"));
const recoded = async (text: string | Buffer, takes = SEVEN_BIT): Promise<string> =>
  Buffer.from(await recodeForTransport(typeof text === "string" ? bytes(text) : text, takes)).toString("latin1");
const lf = (text: string) => text.replaceAll("\r\n", "\n");
const longest = (message: string) => Math.max(...message.split("\r\n").map((line) => line.length));
const parsed = (message: string) => parseMessage(Buffer.from(message, "latin1"));
/** The octets of each part, also of attached messages. */
const leaves = (message: Buffer): string[] =>
  [...walkLeafParts(readStructure(message))].flatMap((part) => {
    const octets = decodePartOctets(message, part);
    return part.type === "message/rfc822" ? leaves(octets) : [octets.toString("latin1")];
  });

describe("a body", () => {
  test("that fits is not touched", async () => {
    const message = bytes("Subject: Grüße\nContent-Type: text/plain; charset=utf-8\n\nGrüße\n");
    expect(await recodeForTransport(message, UNKNOWN_SERVER)).toBe(message);
    const ascii = bytes(`Subject: Hi\n\n${"a".repeat(998)}\n`);
    expect(await recodeForTransport(ascii, SEVEN_BIT)).toBe(ascii);
  });

  test.each([
    ["8bit", "quoted-printable", "Gr=C3=BC=C3=9Fe"],
    ["BINARY", "quoted-printable", "Gr=C3=BC=C3=9Fe"],
  ])("of text in %s becomes %s", async (was, is, text) => {
    expect(
      lf(
        await recoded(
          `MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: ${was}\n\nGrüße\n`,
        ),
      ),
    ).toBe(`MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: ${is}\n\n${text}\n`);
  });

  test("of text that is mostly not ASCII becomes base64", async () => {
    const text = "日本語のメールです。\n".repeat(5);
    const message = await recoded(`Content-Type: text/plain; charset=utf-8\n\n${text}`);
    expect(message).toContain("Content-Transfer-Encoding: base64\r\n");
    expect((await parsed(message)).text).toBe(text.trimEnd());
  });

  test("without a declared type gets one, if it is UTF-8", async () => {
    expect(lf(await recoded("Subject: Hi\n\nGrüße\n"))).toBe(
      "Subject: Hi\nMIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=utf-8\n\nGr=C3=BC=C3=9Fe\n",
    );
    expect(lf(await recoded(Buffer.from("Subject: Hi\r\n\r\nGr\xfc\xdfe\r\n", "latin1")))).toBe(
      "Subject: Hi\nMIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\nGr=FC=DFe\n",
    );
  });

  test("in lines that are too long gets shorter ones, where every server takes 8-bit content", async () => {
    const text = `${"Wort ü ".repeat(700)}\n${"x".repeat(5_000)}\n`;
    const message = await recoded(`Content-Type: text/plain; charset=utf-8\n\n${text}`, UNKNOWN_SERVER);
    expect(longest(message)).toBeLessThanOrEqual(76);
    expect((await parsed(message)).text).toBe(text.trimEnd());
  });

  test("in base64 of one line gets lines", async () => {
    const content = Buffer.from(Array.from({ length: 9_000 }, (_, i) => i % 251));
    const header = "Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n";
    const message = await recoded(`${header}${content.toString("base64")}\n`, UNKNOWN_SERVER);
    expect(longest(message)).toBe(76);
    expect(leaves(Buffer.from(message))).toEqual([content.toString("latin1")]);
  });

  test("in quoted-printable with long or 8-bit lines is encoded again", async () => {
    const header = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n";
    const message = await recoded(`${header}${"caf=C3=A9 ".repeat(200)}é =\nend\n`);
    expect(longest(message)).toBeLessThanOrEqual(76);
    expect((await parsed(message)).text).toBe(`${"café ".repeat(200)}é end`);
  });

  test.each([
    ["an unknown encoding", "Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nü\n"],
    [
      "prose after base64",
      "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\nR3LDvMOfZQ==\nSent to ü@x\n",
    ],
    ["a multipart without parts", "Content-Type: multipart/mixed; boundary=b\n\nü\n"],
    ["too many parts", `Content-Type: multipart/mixed; boundary=b\n\n${"--b\n\nü\n".repeat(1_001)}--b--\n`],
  ])("of %s stays as it is", async (_what, message) => {
    expect(await recodeForTransport(bytes(message), SEVEN_BIT)).toEqual(bytes(message));
  });

  test("with a label of its own, and a second one, has one", async () => {
    const message = await recoded(
      "Content-Transfer-Encoding: 8bit\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: binary\nMIME-Version: 1.0\n\nü\n",
    );
    expect(lf(message)).toBe(
      "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=utf-8\nMIME-Version: 1.0\n\n=C3=BC\n",
    );
  });

  test("begins no line that programs mistake for another", async () => {
    const text = "From here ü\n.\n--b\n-- \n-\nFromage\n";
    const message = await recoded(`Content-Type: text/plain; charset=utf-8\n\n${text}`);
    expect(lf(message)).toEndWith("\n=46rom here =C3=BC\n=2E\n=2D-b\n=2D-=20\n-\nFromage\n");
    // A soft line break makes lines, too.
    const long = `${"x".repeat(75)}--b\n`;
    const cut = await recoded(`Content-Type: text/plain\n\n${"y".repeat(999)}\n${long}`);
    for (const line of cut.split("\r\n")) expect(line).not.toStartWith("--");
    expect((await parsed(cut)).text).toBe(`${"y".repeat(999)}\n${long}`.trimEnd());
  });
});

describe("parts", () => {
  const mixed = (inner: string) =>
    `MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: 8bit\n\nNüchtern\nplain\n--b\n${inner}\n--b--\nEpilög\nend\n`;

  test("are encoded, the whole is labelled, and what nobody reads between them is left out", async () => {
    const inner = "Content-Type: text/plain; charset=utf-8\n\nGrüße\n--b\nContent-Type: image/png\n\n\u0001ü\u0002";
    expect(lf(await recoded(mixed(inner)))).toBe(
      "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: 7bit\n\nplain\n--b\n" +
        "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nGr=C3=BC=C3=9Fe\n--b\n" +
        "Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nAcO8Ag==\n--b--\nend\n",
    );
  });

  test.each([
    [
      "multipart/signed",
      "Content-Type: multipart/signed; boundary=s\n\nprä\n--s\n\nü\n--s\nContent-Type: application/pgp-signature\n\nü\n--s--",
    ],
    ["multipart/encrypted", "Content-Type: multipart/encrypted; boundary=s\n\n--s\n\nü\n--s--"],
    ["S/MIME", "Content-Type: application/pkcs7-mime; smime-type=signed-data\nContent-Transfer-Encoding: binary\n\nü"],
    ["its older type", "Content-Type: application/x-pkcs7-mime\n\nü"],
  ])("of %s stay as they are, beside others", async (_what, sealed) => {
    const inner = `Content-Type: text/plain; charset=utf-8\n\nGrüße\n--b\n${sealed}`;
    const message = Buffer.from(await recodeForTransport(bytes(mixed(inner)), SEVEN_BIT));
    expect(message.includes(bytes(`\n--b\n${sealed}\n--b--\n`))).toBe(true);
    expect(message.includes("Gr=C3=BC=C3=9Fe")).toBe(true);
    expect(message.includes("Content-Transfer-Encoding: 8bit")).toBe(true);
  });

  test("of a message that is signed as a whole stay, and its header is encoded", async () => {
    const body = "\nü\n--s\n\nü\n--s--\n";
    const message = await recoded(`Subject: Grüße\nContent-Type: multipart/signed; boundary=s\n\n--s${body}`);
    expect(message).toBe(
      `Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n--s${bytes(body).toString("latin1")}`,
    );
  });

  test("of an attached message are encoded as messages are, at most ten deep", async () => {
    const attached = (inner: string, depth: number): string =>
      depth === 0
        ? inner
        : `Content-Type: multipart/mixed; boundary=b${depth}\n\n--b${depth}\nContent-Type: message/rfc822\nContent-Transfer-Encoding: 8bit\n\n${attached(inner, depth - 1)}\n--b${depth}--\n`;
    const letter =
      "From: Jürgen <j@x.example>\nSubject: Grüße\nContent-Type: text/plain; charset=utf-8\n\nSchöne Grüße";
    const message = await recoded(attached(letter, 3));
    expect(isAscii(Buffer.from(message, "latin1"))).toBe(true);
    expect(message).toContain("Content-Transfer-Encoding: 7bit");
    expect(message).toContain(
      "From: =?UTF-8?Q?J=C3=BCrgen?= <j@x.example>\r\nSubject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n",
    );
    const deep = bytes(attached(letter, 12));
    expect(await recodeForTransport(deep, SEVEN_BIT)).toEqual(deep);
  });

  test("without a header or its empty line are encoded, too", async () => {
    const message = await recoded("Content-Type: multipart/mixed; boundary=b\n\n--b\n\nü\n--b\nStray ü\n--b--\n");
    expect(isAscii(Buffer.from(message, "latin1"))).toBe(true);
    expect(leaves(Buffer.from(message))).toEqual(["ü", "Stray ü"].map((text) => Buffer.from(text).toString("latin1")));
  });

  test("of a digest without a type stay messages", async () => {
    const message = await recoded(
      "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: Grüße\n\nText ü\n--b--\n",
    );
    expect(message).toContain("\r\n--b\r\nContent-Transfer-Encoding: 7bit\r\n\r\nSubject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=");
  });
});

describe("a header field", () => {
  const header = async (field: string | Buffer, takes = NO_UTF8): Promise<string> => {
    const octets = Buffer.concat([
      typeof field === "string" ? Buffer.from(field) : field,
      Buffer.from("\r\nMIME-Version: 1.0\r\n\r\nText\r\n"),
    ]);
    return (await recoded(octets, takes)).split("\r\nMIME-Version")[0] ?? "";
  };

  test("in UTF-8 stays where the server takes it", async () => {
    expect(await header("Subject: Grüße", UNKNOWN_SERVER)).toBe(Buffer.from("Subject: Grüße").toString("latin1"));
  });

  test.each([
    ["Subject: Grüße <b>", "Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe_=3Cb=3E?="],
    ["To: Ann <ann@x.example>, Jürgen <j@y.example>", "To: Ann <ann@x.example>, =?UTF-8?Q?J=C3=BCrgen?= <j@y.example>"],
    ['To: "Doe, Ann" <a@x.example>, j@bücher.example', 'To: "Doe, Ann" <a@x.example>, j@xn--bcher-kva.example'],
    ["Cc: j@y.example (Jürgen)", "Cc: =?UTF-8?Q?J=C3=BCrgen?= <j@y.example>"],
    ["To: Empfänger: ;", "To: =?UTF-8?Q?Empf=C3=A4nger?=:;"],
    [
      "Disposition-Notification-To: Jürgen <j@y.example>",
      "Disposition-Notification-To: =?UTF-8?Q?J=C3=BCrgen?= <j@y.example>",
    ],
    [
      'Content-Type: text/plain; charset=utf-8; name="ü b.txt"',
      "Content-Type: text/plain; charset=utf-8; name*0*=utf-8''%C3%BC%20b.txt",
    ],
    [
      "Content-Disposition: attachment; filename*=utf-8''%C3%BC; filename=ü",
      "Content-Disposition: attachment; filename*=utf-8''%C3%BC",
    ],
    ["X-Any: für alle", "X-Any: =?UTF-8?Q?f=C3=BCr_alle?="],
  ])("%s", async (field, encoded) => {
    expect(await header(field)).toBe(encoded);
  });

  test("in another charset is encoded for every server", async () => {
    expect(await header(Buffer.from("Subject: Gr\xfc\xdfe und sch\xf6ne Tage", "latin1"), SEVEN_BIT)).toBe(
      "Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe_und_sch=C3=B6ne_Tage?=",
    );
    const raw = Buffer.from("Subject: Gr\xfc\xdfe und sch\xf6ne Tage", "latin1");
    expect(await header(raw, UNKNOWN_SERVER)).toBe("Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe_und_sch=C3=B6ne_Tage?=");
  });

  test.each(["To: jürgen@x.example", "Message-ID: <ü@x.example>", "List-Unsubscribe: <https://x.example/ü>"])(
    "%s has no other form and stays",
    async (field) => {
      expect(await header(field)).toBe(Buffer.from(field).toString("latin1"));
    },
  );

  const ids = Array.from({ length: 60 }, (_, i) => `<${"x".repeat(30)}${i}@x.example>`);
  const people = Array.from({ length: 60 }, (_, i) => `person-${i}-${"x".repeat(30)}@x.example`);
  test.each([
    ["Subject", "word ".repeat(300).trim(), "word ".repeat(300).trim()],
    ["Subject", "x".repeat(3_000), "x".repeat(3_000)],
    ["Subject", `a${" ".repeat(2_000)}b`, "a b"],
    ["References", ids.join(""), ids.join(" ")],
    ["To", people.join(","), people.join(", ")],
    ["X-Data", "x".repeat(2_000), `${"x".repeat(900)} ${"x".repeat(900)} ${"x".repeat(200)}`],
  ])("%s that is too long for a line is folded", async (name, value, read) => {
    const field = await header(`${name}: ${value}`, UNKNOWN_SERVER);
    expect(longest(field)).toBeLessThanOrEqual(998);
    const { headers } = await parsed(`${field}\r\n\r\n`);
    expect(decodeWords(headers.find(([one]) => one === name)?.[1] ?? "")).toBe(read);
  });

  test("with the boundary and a parameter that does not fit keeps both", async () => {
    const message = bytes(
      `Content-Type: multipart/mixed; name="${"ü".repeat(600)}"; boundary="=_b 'c\\"d"; x*0="a;b"; x*1=c\n\n--=_b 'c"d\n\nText\n--=_b 'c"d--\n`,
    );
    const folded = await recoded(message);
    expect(leaves(Buffer.from(folded))).toEqual(["Text"]);
    const { parameters } = readStructure(Buffer.from(folded)).contentType;
    expect(parameters.get("x*0")).toBe("a;b");
    expect(longest(folded)).toBeLessThanOrEqual(998);
    expect(isAscii(Buffer.from(folded, "latin1"))).toBe(true);
  });

  test("with a long file name keeps it", async () => {
    const name = `${"long name ".repeat(150)}.txt`;
    const message = `Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename="${name}"\n\nx\n--b--\n`;
    const folded = await recoded(message, UNKNOWN_SERVER);
    expect(longest(folded)).toBeLessThanOrEqual(998);
    const [before, after] = await Promise.all([parsed(bytes(message).toString("latin1")), parsed(folded)]);
    expect(after.attachments.map(({ filename }) => filename)).toEqual(
      before.attachments.map(({ filename }) => filename),
    );
  });
});

/** Any message in which a mail app may put any text, data, message or signed part. */
describe("any message", () => {
  const text = fc
    .array(
      fc.oneof(
        fc.string({ unit: "binary", maxLength: 40 }),
        fc.constantFrom("--b", "Grüße ", "日本", ".", "From ", " \t", "x".repeat(1_200)),
      ),
      { maxLength: 12 },
    )
    .chain((words) => fc.constantFrom("\r\n", " ", "").map((between) => words.join(between)))
    .map((value) =>
      value
        .replace(/[\0\ud800-\udfff]/g, "")
        .replace(/\r\n?|\n/g, "\r\n")
        .replace(/(^|\n)--/g, "$1- -"),
    );
  const leaf = fc.record({
    kind: fc.constantFrom("text/plain; charset=utf-8", "text/html; charset=utf-8", "image/png", "application/json", ""),
    encoding: fc.constantFrom("", "7bit", "8bit", "binary", "base64", "quoted-printable"),
    name: fc.constantFrom("", "ü b.txt", "x".repeat(1_100)),
    text,
  });
  type Tree = { kind: string; encoding?: string; name?: string; text?: string; parts?: Tree[]; sealed?: boolean };
  const { tree } = fc.letrec<{ tree: Tree; multipart: Tree; message: Tree }>((tie) => ({
    tree: fc.oneof({ depthSize: "small", withCrossShrink: true }, leaf, tie("multipart"), tie("message")),
    message: tie("tree").map((inner) => ({ kind: "message/rfc822", parts: [inner as Tree] })),
    multipart: fc
      .record({ sealed: fc.boolean(), parts: fc.array(tie("tree"), { minLength: 1, maxLength: 3 }) })
      .map(({ sealed, parts }) => ({ kind: "multipart", sealed, parts })),
  }));
  let boundaries = 0;
  function write({ kind, encoding = "", name = "", text = "", parts, sealed }: Tree): string {
    if (kind === "message/rfc822") return `Content-Type: ${kind}\r\n\r\nSubject: Grüße\r\n${write(parts?.[0] as Tree)}`;
    if (parts) {
      const boundary = `=_${++boundaries}`;
      const inner = parts.map((part) => `--${boundary}\r\n${write(part)}\r\n`).join("");
      return `Content-Type: multipart/${sealed ? "signed" : "mixed"}; boundary="${boundary}"\r\n\r\n${inner}--${boundary}--`;
    }
    const header = [
      ...(kind === "" ? [] : [`Content-Type: ${kind}`]),
      ...(encoding === "" ? [] : [`Content-Transfer-Encoding: ${encoding}`]),
      ...(name === "" ? [] : [`Content-Disposition: attachment; filename="${name}"`]),
    ];
    const body =
      encoding === "base64"
        ? Buffer.from(text).toString("base64")
        : encoding === "quoted-printable"
          ? text.replaceAll("=", "=3D").replace(/[ \t]+(?=\r\n|$)/g, "")
          : text;
    return `${[...header, ""].join("\r\n")}\r\n${body}`;
  }
  const isSealed = ({ sealed, parts = [] }: Tree): boolean => sealed === true || parts.some(isSealed);
  const sealedIn = (message: Buffer, part = readStructure(message)): string[] =>
    part.contentType.value === "multipart/signed"
      ? [message.toString("latin1", part.start, Math.max(...[...walkLeafParts(part)].map(({ end }: Part) => end)))]
      : part.type === "message/rfc822"
        ? sealedIn(decodePartOctets(message, part))
        : part.children.flatMap((child) => sealedIn(message, child));

  test("keeps the octets of each part and fits, but for what is signed", async () => {
    await fc.assert(
      fc.asyncProperty(
        tree,
        text,
        fc.constantFrom(SEVEN_BIT, NO_UTF8, UNKNOWN_SERVER),
        async (root, subject, takes) => {
          const line = subject.replace(/\s+/g, " ").trim();
          const before = Buffer.from(`Subject: ${line}\r\nMIME-Version: 1.0\r\n${write(root)}\r\n`);
          const after = Buffer.from(await recodeForTransport(before, takes));
          expect(leaves(after)).toEqual(leaves(before));
          expect(sealedIn(after)).toEqual(sealedIn(before));
          if (!isSealed(root)) {
            expect(longest(after.toString("latin1"))).toBeLessThanOrEqual(998);
            if (!takes.eightBit) expect(isAscii(after)).toBe(true);
          }
          const [was, is] = await Promise.all([parseMessage(before), parseMessage(after)]);
          expect({ text: is.text, html: is.html }).toEqual({ text: was.text, html: was.html });
          const files = ({ attachments }: typeof is) =>
            attachments.map(({ filename, contentType, content }) => [
              filename,
              contentType === "message/rfc822" ? "" : content,
            ]);
          expect(files(is)).toEqual(files(was));
          // It fits now, so that nothing changes any more.
          expect(await recodeForTransport(after, takes)).toEqual(after);
        },
      ),
      { numRuns: runs(150) },
    );
  });
});

test("work is linear in what a hostile app hands in", async () => {
  const time = async (message: Buffer) => {
    const start = performance.now();
    await recodeForTransport(message, SEVEN_BIT);
    return performance.now() - start;
  };
  const size = 400_000;
  const hostile = [
    `Subject: ${"ü".repeat(size / 2)}\r\n\r\nText\r\n`,
    `To: ${'"\\'.repeat(size / 2)}ü\r\n\r\nText\r\n`,
    `To: ${"ü<".repeat(size / 3)}\r\n\r\nText\r\n`,
    `Content-Type: text/plain; name="${"ü".repeat(size / 2)}"\r\n\r\nText\r\n`,
    `X-A: ${"ü ".repeat(size / 3)}\r\n\r\nText\r\n`,
    `Subject: ${"=?".repeat(size / 2)}ü\r\n\r\nText\r\n`,
    `Subject: hi\r\n\r\n${"ü\r\n".repeat(size)}`,
    `Subject: hi\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${"ü\r\n".repeat(size)}--b\r\n\r\nü`,
  ];
  for (const message of hostile) expect(await time(Buffer.from(message))).toBeLessThan(3_000);
});
