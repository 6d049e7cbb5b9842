/** The text of PDFs: real ones, made by reportlab, and hostile ones. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { extracted, linesOf, pagesOfText, pdf, pdfOf } from "../harness/mail/documents.ts";

const file = async (name: string) => new Uint8Array(await Bun.file(join(import.meta.dir, "files", name)).arrayBuffer());

test("pages have lines, paragraphs, tables and links", async () => {
  const { text, notes } = await extracted(await file("bill.pdf"));
  expect(notes).toEqual([]);
  expect(text).toBe(
    [
      "--- page 1 of 2 ---",
      "Bill no. 17",
      "",
      `${"Dear Ann, please pay what the table says. ".repeat(2)}Dear Ann,`,
      "please pay what the table says. Dear Ann, please pay what the table says. Dear Ann, please pay",
      "what the table says. Dear Ann, please pay what the table says.",
      "",
      "Second paragraph, see here.",
      "",
      "Item\tNumber\tPrice",
      "Apples\t3\t1.50",
      "Pears\t12\t7.20",
      "Links: https://pay.example/17",
      "",
      "--- page 2 of 2 ---",
      "Grüße from page two",
      "",
    ].join("\n"),
  );
});

test("a form has its values, and notes on a page are there, but for those that are hidden", async () => {
  expect((await extracted(await file("form.pdf"))).text).toBe(
    "--- page 1 of 1 ---\nYour name:\nField person: Ann Example\nField agrees: Yes\n",
  );
  const note = (words: string, more = "") =>
    `<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /T (Ben) /Contents (${words}) ${more} >>`;
  const annotated = pdf([linesOf(["page"])], { page: `/Annots [${note("right?")} ${note("hidden", "/F 2")}]` });
  expect((await extracted(annotated)).text).toBe("--- page 1 of 1 ---\npage\nNote by Ben: right?\n");
});

test("text in Chinese and Japanese whose character maps are not in the PDF can be read", async () => {
  expect((await extracted(await file("cjk.pdf"))).text).toBe("--- page 1 of 1 ---\n日本語の文書\n\n中文文件\n");
});

test("a PDF that asks for a password is encrypted; one that asks for none to be read is read", async () => {
  expect(await extracted(await file("locked.pdf"))).toEqual({ failure: "it is encrypted" });
  expect((await extracted(await file("owner.pdf"))).text).toContain("words that all may read");
});

test("text outside the page is not there", async () => {
  const outside = `BT /F1 11 Tf 50 -500 Td (outside) Tj ET ${linesOf(["inside"])}`;
  expect((await extracted(pdf([outside]))).text).toBe("--- page 1 of 1 ---\ninside\n");
});

test("pages without text are counted; without any text there is a reason", async () => {
  expect(await extracted(pdf(["0 0 9 9 re f", linesOf(["words"]), ""]))).toEqual({
    text: "--- page 1 of 3 ---\n\n--- page 2 of 3 ---\nwords\n\n--- page 3 of 3 ---\n",
    notes: ["Left out: pages without text, perhaps pictures of it (2)."],
  });
  expect(await extracted(pdf(["0 0 9 9 re f"]))).toEqual({
    failure: "its pages have no text, perhaps pictures of it",
  });
});

describe("a hostile or broken PDF", () => {
  test.each([
    ["garbage", new Uint8Array(Buffer.from("%PDF-1.7 and no more"))],
    ["cut off", pdf(pagesOfText(3)).slice(0, 900)],
    [
      "a page tree that is a circle",
      pdfOf(["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 10 >>"]),
    ],
    [
      "a page that is no page",
      pdfOf(["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "(page)"]),
    ],
  ])("is refused: %s", async (_, bytes) => {
    expect((await extracted(bytes)).failure).toBeString();
  });

  test("that claims a billion pages has the one that there is", async () => {
    const content = { dictionary: "/Filter /FlateDecode", stream: deflateSync(linesOf(["one"])) };
    const lying = pdfOf([
      "<< /Type /Catalog /Pages 2 0 R >>",
      "<< /Type /Pages /Kids [3 0 R] /Count 1000000000 >>",
      "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>",
      content,
      "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    ]);
    expect((await extracted(lying)).text).toContain("one");
  });

  test("runs no script, at any event", async () => {
    const script = (place: string) => `<< /S /JavaScript /JS (globalThis.ranScript = "${place}"; app.alert\\(1\\)) >>`;
    const catalogue = `/OpenAction ${script("open")} /AA << /WC ${script("close")} >> /Names << /JavaScript << /Names [(a) ${script("name")}] >> >>`;
    const field = `<< /Type /Annot /Subtype /Widget /FT /Tx /T (f) /V (value) /Rect [0 0 9 9] /AA << /K ${script("key")} /F ${script("format")} >> >>`;
    const found = await extracted(
      pdf([linesOf(["words"])], { catalogue, page: `/AA << /O ${script("page")} >> /Annots [${field}]` }),
    );
    expect(found.text).toBe("--- page 1 of 1 ---\nwords\nField f: value\n");
    expect(globalThis).not.toHaveProperty("ranScript");
    expect(globalThis).not.toHaveProperty("pdfjsSandbox");
  });
});
