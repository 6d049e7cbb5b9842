/** Makes documents, honest and hostile ones. */
import { crc32, deflateRawSync, deflateSync } from "node:zlib";
import { extractText } from "../../../src/documents/document-text.ts";
import type { FileHints } from "../../../src/documents/kind.ts";

export interface Entry {
  name: string;
  content: Uint8Array | string;
  /** Size and encryption that the archive states, in place of the truth. */
  says?: { size?: number; encrypted?: boolean };
  /** Its data is that of the entry before. */
  overlaps?: boolean;
}

/** A ZIP archive. */
export function zip(entries: readonly Entry[]): Uint8Array<ArrayBuffer> {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  let last = 0;
  for (const { name, content, says = {}, overlaps } of entries) {
    const bytes = Buffer.from(content);
    const packed = deflateRawSync(bytes);
    const called = Buffer.from(name);
    const head = Buffer.alloc(26);
    head.writeUInt16LE(20, 0);
    head.writeUInt16LE(says.encrypted ? 1 : 0, 2);
    head.writeUInt16LE(8, 4);
    head.writeUInt32LE(crc32(bytes), 10);
    head.writeUInt32LE(packed.byteLength, 14);
    head.writeUInt32LE(says.size ?? bytes.byteLength, 18);
    head.writeUInt16LE(called.byteLength, 22);
    if (!overlaps) {
      last = offset;
      files.push(Buffer.from("PK\u0003\u0004"), head, called, packed);
      offset += 30 + called.byteLength + packed.byteLength;
    }
    const more = Buffer.alloc(14);
    more.writeUInt32LE(last, 10);
    directory.push(Buffer.from("PK\u0001\u0002\u0014\u0000", "latin1"), head, more, called);
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(index.byteLength, 8);
  end.writeUInt32LE(offset, 12);
  return new Uint8Array(Buffer.concat([...files, index, Buffer.from("PK\u0005\u0006"), end]));
}

const OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/** A part with the relationships of an Office file; `relations`: kinds and targets by id. */
export const relations = (
  part: string,
  relations: Record<string, readonly [kind: string, target: string, mode?: "External"]>,
): Entry => ({
  name: part.replace(/[^/]*$/, (file) => `_rels/${file}.rels`),
  content: `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${Object.entries(
    relations,
  )
    .map(
      ([id, [kind, target, mode]]) =>
        `<Relationship Id="${id}" Type="${OFFICE}/${kind}" Target="${target}"${mode ? ` TargetMode="${mode}"` : ""}/>`,
    )
    .join("")}</Relationships>`,
});

/** The entries of an Office file whose main part has this XML. */
export const officeEntries = (main: string, content: string | Uint8Array, ...more: Entry[]): Entry[] => [
  { name: "[Content_Types].xml", content: "<Types/>" },
  relations("", { rId1: ["officeDocument", main] }),
  { name: main, content },
  ...more,
];

export const wordXml = (body: string): string =>
  `<?xml version="1.0"?><w:document><w:body>${body}</w:body></w:document>`;
export const paragraph = (text: string): string => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`;

/** A Word document. */
export const docx = (body: string, ...more: Entry[]): Uint8Array<ArrayBuffer> =>
  zip(officeEntries("word/document.xml", wordXml(body), ...more));

/** A workbook with sheets of the given XML, and other parts. */
export function xlsx(
  sheets: readonly { name: string; state?: string; xml: string }[],
  {
    styles,
    strings,
    more = [],
    workbook = "",
  }: { styles?: string; strings?: string; workbook?: string; more?: Entry[] } = {},
): Uint8Array<ArrayBuffer> {
  const parts = sheets.map(({ xml }, i) => ({
    name: `xl/worksheets/sheet${i + 1}.xml`,
    content: `<worksheet>${xml}</worksheet>`,
  }));
  const links = Object.fromEntries(
    sheets.map((_, i) => [`rId${i + 1}`, ["worksheet", `worksheets/sheet${i + 1}.xml`] as const]),
  );
  const list = sheets.map(
    ({ name, state }, i) =>
      `<sheet name="${name}" sheetId="${i + 1}"${state ? ` state="${state}"` : ""} r:id="rId${i + 1}"/>`,
  );
  return zip(
    officeEntries(
      "xl/workbook.xml",
      `<workbook>${workbook}<sheets>${list.join("")}</sheets></workbook>`,
      relations("xl/workbook.xml", {
        ...links,
        ...(styles && { styles: ["styles", "styles.xml"] as const }),
        ...(strings && { strings: ["sharedStrings", "sharedStrings.xml"] as const }),
      }),
      ...(styles ? [{ name: "xl/styles.xml", content: `<styleSheet>${styles}</styleSheet>` }] : []),
      ...(strings ? [{ name: "xl/sharedStrings.xml", content: `<sst>${strings}</sst>` }] : []),
      ...parts,
      ...more,
    ),
  );
}

export const row = (number: number, ...cells: string[]): string =>
  `<row r="${number}">${cells
    .map((cell, i) => `<c r="${String.fromCharCode(65 + i)}${number}" t="inlineStr"><is><t>${cell}</t></is></c>`)
    .join("")}</row>`;

/** A presentation of slides with the given XML. */
export function pptx(slides: readonly string[], ...more: Entry[]): Uint8Array<ArrayBuffer> {
  const links = Object.fromEntries(
    slides.map((_, i) => [`rId${i + 1}`, ["slide", `slides/slide${i + 1}.xml`] as const]),
  );
  const list = slides.map((_, i) => `<p:sldId id="${256 + i}" r:id="rId${i + 1}"/>`).join("");
  return zip(
    officeEntries(
      "ppt/presentation.xml",
      `<p:presentation><p:sldIdLst>${list}</p:sldIdLst></p:presentation>`,
      relations("ppt/presentation.xml", links),
      ...slides.map((content, i) => ({ name: `ppt/slides/slide${i + 1}.xml`, content })),
      ...more,
    ),
  );
}

/** A shape of a slide. */
export const shape = (paragraphs: readonly string[], { placeholder = "", hidden = false } = {}): string =>
  `<p:sp><p:nvSpPr><p:cNvPr id="2" name="Text"${hidden ? ' hidden="1"' : ""}/><p:nvPr>${placeholder ? `<p:ph type="${placeholder}"/>` : ""}</p:nvPr></p:nvSpPr><p:txBody>${paragraphs.map((text) => `<a:p><a:r><a:t>${text}</a:t></a:r></a:p>`).join("")}</p:txBody></p:sp>`;
export const slide = (shapes: string, attributes = ""): string =>
  `<p:sld${attributes}><p:cSld><p:spTree>${shapes}</p:spTree></p:cSld></p:sld>`;

/** An object of a PDF: its dictionary, or with a stream. */
export type PdfObject = string | { dictionary: string; stream: Uint8Array | string };

/** A PDF of these objects, numbered from 1; the first is the catalogue. */
export function pdfOf(objects: readonly PdfObject[], trailer = ""): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [Buffer.from("%PDF-1.7\n")];
  const offsets: number[] = [];
  let offset = 9;
  const add = (part: string | Uint8Array): void => {
    const bytes = typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part);
    parts.push(bytes);
    offset += bytes.byteLength;
  };
  for (const [index, object] of objects.entries()) {
    offsets.push(offset);
    add(`${index + 1} 0 obj\n`);
    if (typeof object === "string") add(object);
    else {
      const bytes = Buffer.from(object.stream);
      add(`<< ${object.dictionary} /Length ${bytes.byteLength} >>\nstream\n`);
      add(bytes);
      add("\nendstream");
    }
    add("\nendobj\n");
  }
  const start = offset;
  add(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`);
  for (const at of offsets) add(`${String(at).padStart(10, "0")} 00000 n \n`);
  add(`trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${trailer} >>\nstartxref\n${start}\n%%EOF\n`);
  return new Uint8Array(Buffer.concat(parts));
}

/** Operators that show lines of text. */
export const linesOf = (lines: readonly string[]): string =>
  `BT /F1 11 Tf 14 TL 50 800 Td\n${lines.map((line) => `(${line}) Tj T*`).join("\n")}\nET`;

/** A PDF with a page for each content stream. `page`: more of each page's dictionary; `catalogue`: of the catalogue's. */
export function pdf(
  contents: readonly (string | Uint8Array)[],
  { page = "", catalogue = "", more = [] }: { page?: string; catalogue?: string; more?: PdfObject[] } = {},
): Uint8Array<ArrayBuffer> {
  // 1 catalogue, 2 pages, 3 font, then those of `more`, then a page and its content in turn.
  const first = 4 + more.length;
  const kids = contents.map((_, i) => `${first + 2 * i} 0 R`);
  return pdfOf([
    `<< /Type /Catalog /Pages 2 0 R ${catalogue} >>`,
    `<< /Type /Pages /Kids [${kids.join(" ")}] /Count ${kids.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /Encoding /WinAnsiEncoding >>",
    ...more,
    ...contents.flatMap((content, i) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents ${first + 2 * i + 1} 0 R ${page} >>`,
      { dictionary: "/Filter /FlateDecode", stream: deflateSync(content) },
    ]),
  ]);
}

const WORDS = "the quick brown mail server keeps text of many pages for agents people and programs".split(" ");

/** Pages of 50 lines of words. */
export const pagesOfText = (count: number): string[] =>
  Array.from({ length: count }, (_, page) =>
    linesOf(
      Array.from({ length: 50 }, (_, line) =>
        Array.from({ length: 14 }, (_, word) => WORDS[(page * 7 + line * 5 + word * 3) % WORDS.length]).join(" "),
      ),
    ),
  );

/** A PDF of one page: the fourth object is its content, the fifth its font F1 and its form X0. */
export const onePage = (...objects: PdfObject[]) =>
  pdfOf([
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 5 0 R >> /XObject << /X0 5 0 R >> >> /Contents 4 0 R >>",
    ...objects,
  ]);

/** A few kilobytes that unpack twice, to four gigabytes. */
export const streamBomb = () =>
  onePage({
    dictionary: "/Filter [/FlateDecode /FlateDecode]",
    stream: deflateSync(deflateSync(Buffer.alloc(4_000 * 1024 * 1024, 32), { level: 1 })),
  });

/** Six gigabytes of spaces, deflated three times, as base64. */
const LAYERS =
  "eNqruPXmjq5Ra6JM+8PkOSo/ONwC/LYyH+VxFTtxjKnkrOExoXNKOgeYTKw/TNRxEFJ59iD2WHV8eNUn/X/PZ/5+9fbxx7RP" +
  "6XbRf968vbPel4GBoWHi7P331q37Y592+vnjycYMDAwJb/TMri0/HPjgd833EzIMDAwGVeXsv2cf5m88//r0SkuQii/b9t/j" +
  "b48+cPlT4usrcmAl+k2MDAwME5QkgGYy6II5FyAcQ2TOqMyozKjMqMyozKjMqMyozKjMqMyozKjMqMyozKjMqMyozKjMqMyo" +
  "zKjMqMyozKjMqAy9ZQ7kW5f7sAmIMCRcWN71NleKY2GzlVhlyKYbulF/yh35GBokEkEatnAwMzAwLHCF6D4EIjsE2RgYGBy6" +
  "DUCcqBaIgTygOaZRLaNaRrWMahnVMqplVMuollEto1pGtYxqoURL0d/EA2X33u95I6xi+9nw2C/GyCMz8wBcxJNY";

/** A document of some 900 bytes that unpacks three times, to six gigabytes. */
export const layeredBomb = () =>
  onePage({
    dictionary: "/Filter [/FlateDecode /FlateDecode /FlateDecode]",
    stream: Buffer.from(LAYERS, "base64"),
  });

/** A font with a map of billions of characters. */
export const mapBomb = () => {
  const ranges = "<00000000> <00ffffff> <0041>\n".repeat(100);
  return onePage(
    { dictionary: "", stream: "BT /F1 11 Tf 50 800 Td (abc) Tj ET" },
    "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo << /Ordering (Identity) /Registry (Adobe) /Supplement 0 >> >>] >>",
    {
      dictionary: "",
      stream: `/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00000000> <ffffffff> endcodespacerange 100 beginbfrange ${ranges} endbfrange endcmap`,
    },
  );
};

/** Gives the result of extractText for a document, called in this thread. Fails for a file that is no document. */
export async function extracted(
  bytes: Uint8Array<ArrayBuffer>,
  hints: Partial<FileHints> = {},
): Promise<{ text?: string; notes?: string[]; failure?: string }> {
  const found = await extractText(
    bytes,
    { filename: "file", contentType: "application/octet-stream", ...hints },
    () => 0,
  );
  if (!found) throw new Error("it is no document");
  return found;
}

/** A message with files. */
export const letterWith = (to: string, files: readonly [name: string, type: string, content: Uint8Array][]): string =>
  [
    "From: Carol <carol@remote.example>",
    `To: ${to}`,
    "Subject: Documents",
    "Message-ID: <documents@remote.example>",
    "Date: Mon, 05 Jan 2026 08:30:00 +0000",
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="b"',
    "",
    "--b\nContent-Type: text/plain\n\nThe documents are attached.",
    ...files.map(
      ([name, type, content]) =>
        `--b\nContent-Type: ${type}; name="${name}"\nContent-Disposition: attachment; filename="${name}"\nContent-Transfer-Encoding: base64\n\n${Buffer.from(content).toString("base64").replaceAll(/.{76}/g, "$&\n")}`,
    ),
    "--b--",
    "",
  ].join("\n");
