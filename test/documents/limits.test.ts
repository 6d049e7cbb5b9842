/** Kinds of files, told by their bytes, and the limits that all documents have. */
import { describe, expect, test } from "bun:test";
import { extractText } from "../../src/documents/document-text.ts";
import { LONGEST_MS, MOST_CHARS } from "../../src/documents/extracted-text.ts";
import { mayBeDocument } from "../../src/documents/kind.ts";
import {
  docx,
  type Entry,
  extracted,
  linesOf,
  officeEntries,
  paragraph,
  pdf,
  relations,
  row,
  wordXml,
  xlsx,
  zip,
} from "../harness/mail/documents.ts";

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));

describe("the bytes say what a file is", () => {
  test.each([
    ["a Word document that says it is a PDF", docx(paragraph("words")), "a.pdf", "application/pdf", "words"],
    ["a PDF that says it is a Word document", pdf([linesOf(["words"])]), "a.docx", "application/msword", "words"],
    ["a PDF that says it is text", pdf([linesOf(["words"])]), "a.txt", "text/plain", "words"],
    [
      "a PDF behind other bytes",
      bytesOf(`junk\n${Buffer.from(pdf([linesOf(["words"])])).toString("latin1")}`),
      "a.pdf",
      "text/plain",
      "words",
    ],
    ["RTF with the name of a Word document", bytesOf("{\\rtf1 words}"), "a.doc", "application/msword", "words"],
    ["RTF that says it is text", bytesOf("{\\rtf1 words}"), "a.rtf", "text/plain", "words"],
    [
      "a calendar without a type",
      bytesOf("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:words\r\nEND:VEVENT\r\nEND:VCALENDAR"),
      "invite",
      "application/octet-stream",
      "words",
    ],
  ])("%s", async (_, bytes, filename, contentType, words) => {
    expect(mayBeDocument(bytes.subarray(0, 1_024), { filename, contentType })).toBe(true);
    expect((await extracted(bytes, { filename, contentType })).text).toContain(words);
  });

  test.each([
    ["text that begins like RTF", "{\\rtf1 is how RTF begins", "a.txt", "text/plain"],
    ["text that begins like a calendar", "BEGIN:VCALENDAR is how", "a.txt", "text/plain"],
    ["text that speaks of PDF", "A PDF begins with %PDF-1.7", "a.txt", "text/plain"],
    [
      "a Word document of before 2007",
      "\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1",
      "a.doc",
      "application/msword",
    ],
    ["something else", "\u0089PNG", "a.pdf", "application/pdf"],
  ])("%s is no document", (_, text, filename, contentType) => {
    expect(mayBeDocument(bytesOf(text), { filename, contentType })).toBe(false);
  });

  test("an archive that is no Office file is no document, and a broken one that says it is has a reason", async () => {
    const read = (bytes: Uint8Array<ArrayBuffer>, filename: string) =>
      extractText(bytes, { filename, contentType: "application/octet-stream" }, () => 0);
    const archive = zip([{ name: "a.txt", content: "words" }]);
    expect(await read(archive, "a.docx")).toBeUndefined();
    expect(await read(zip(officeEntries("main.xml", "<other/>")), "a.docx")).toBeUndefined();
    expect(await read(archive.slice(0, 40), "a.zip")).toBeUndefined();
    expect(await read(archive.slice(0, 40), "a.docx")).toEqual({ failure: "its archive is broken" });
    expect(await read(bytesOf("\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1"), "a.docx")).toEqual({
      failure: "it is encrypted, or in the format of before 2007",
    });
  });
});

describe("a hostile archive is refused before it is unpacked", () => {
  const MB = 1024 * 1024;
  /** Text that is packed to a third. */
  const noise = (bytes: number): string =>
    Buffer.from(Uint32Array.from({ length: bytes / 8 }, (_, i) => Math.imul(i, 0x9e3779b1)).buffer).toString("hex");
  const document = (content: string | Uint8Array, says?: Entry["says"]): Entry[] =>
    officeEntries("word/document.xml", "").map((entry) =>
      entry.name === "word/document.xml" ? { ...entry, content, ...(says && { says }) } : entry,
    );
  const refused = async (entries: Entry[]) => (await extracted(zip(entries), { filename: "a.docx" })).failure;

  test("one that unpacks to more than 96 MB, all parts together", async () => {
    const part = noise(2 * MB);
    const header = (size: number): Entry[] => [
      relations("word/document.xml", { rId1: ["header", "header1.xml"] }),
      { name: "word/header1.xml", content: part, says: { size } },
    ];
    const main = document(wordXml(`<!-- ${part} -->`));
    expect(await refused([...main, ...header(95 * MB)])).toBe("its archive unpacks to too much");
    expect(await refused([...main, ...header(90 * MB)])).toBe("its archive is broken");
  });
  test("one that claims ten gigabytes", async () => {
    expect(await refused(document(noise(2 * MB), { size: 0xfffffff0 }))).toBe("its archive unpacks to too much");
  });
  test("zeros", async () => {
    expect(await refused(document(new Uint8Array(100 * MB)))).toBe("its archive unpacks to too much");
  });
  test("one that unpacks to more than it says", async () => {
    expect(await refused(document(wordXml(paragraph(noise(MB))), { size: 1_000 }))).toBe("its archive is broken");
  });
  test("many entries", async () => {
    const many = Array.from({ length: 10_001 }, (_, i) => ({ name: `x${i}`, content: "" }));
    expect(await refused([...officeEntries("word/document.xml", "<w:document/>"), ...many])).toBe(
      "its archive has too many parts",
    );
  });
  test("entries over each other", async () => {
    const over = Array.from({ length: 40 }, (_, i) => ({ name: `x${i}`, content: noise(1_000), overlaps: i > 0 }));
    expect(await refused([...document(wordXml(paragraph("words"))), ...over])).toBe("parts of its archive overlap");
  });
  test("entries of the same name", async () => {
    expect(await refused([...document(wordXml(paragraph("one"))), { name: "WORD/document.xml", content: "two" }])).toBe(
      "two parts of its archive have the same name",
    );
  });
  test("an encrypted entry", async () => {
    expect(await refused(document("x", { encrypted: true }))).toBe("it is encrypted");
  });
  test("names that lead out of it lead nowhere", async () => {
    expect(await refused([...document(wordXml(paragraph("words"))), { name: "../../etc/passwd", content: "x" }])).toBe(
      "its archive is broken",
    );
  });
  test("an archive in an archive is not opened", async () => {
    const inner = zip([{ name: "zeros", content: new Uint8Array(100 * MB) }]);
    const found = await extracted(
      zip([...document(wordXml(paragraph("words"))), { name: "word/inner.zip", content: inner }]),
    );
    expect(found).toEqual({ text: "words\n", notes: [] });
  });
});

describe("every document", () => {
  test("may have elements 500 deep", async () => {
    expect((await extracted(docx(`${"<w:sdt>".repeat(490)}${paragraph("words")}`))).text).toBe("words\n");
    expect(await extracted(docx("<w:sdt>".repeat(600)))).toEqual({ failure: "it is broken" });
  });

  test("gives a million characters, and never half of one", async () => {
    const words = Array.from({ length: 30_000 }, (_, i) => `word${(i * 7_919) % 10_007}`).join(" ");
    const found = await extracted(docx(paragraph(`a${"😀".repeat(300)}${words}`).repeat(6)));
    expect(found.text?.length).toBeGreaterThanOrEqual(MOST_CHARS - 1);
    expect(found.text?.isWellFormed()).toBe(true);
    expect(found.notes).toEqual([`Left out: what follows the first ${MOST_CHARS} characters.`]);
  });

  test("gives what was read when its time is over", async () => {
    let now = 0;
    const rows = Array.from({ length: 5_000 }, (_, i) => row(i + 1, `r${i}`)).join("");
    const found = await extractText(
      xlsx([{ name: "A", xml: rows }]),
      { filename: "a", contentType: "" },
      () => (now += LONGEST_MS / 4),
    );
    expect(found).toEqual({
      text: expect.stringMatching(/^# Sheet: A\nr0\nr1\n/),
      notes: ["Left out: what follows, because reading took more than 5 seconds."],
    });
  });
});
