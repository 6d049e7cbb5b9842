/** The text of Word documents, workbooks and presentations: real ones, made by python-docx, openpyxl and python-pptx, and odd ones. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import {
  docx,
  extracted,
  officeEntries,
  paragraph,
  pptx,
  relations,
  row,
  shape,
  slide,
  wordXml,
  xlsx,
  zip,
} from "../harness/mail/documents.ts";

const file = async (name: string) => new Uint8Array(await Bun.file(join(import.meta.dir, "files", name)).arrayBuffer());

describe("a Word document", () => {
  test("has paragraphs, list items, table cells, a page break and its page header, and no hidden text", async () => {
    expect(await extracted(await file("offer.docx"))).toEqual({
      text: [
        "Offer for May",
        "Dear Ann, this is the offer.",
        "Visible and more.",
        "first point",
        "cell 00\tcell 01\tcell 02",
        "cell 10\tcell 11\tcell 12",
        "",
        "",
        "--- page break ---",
        "",
        "",
        "Page two with Grüße, 日本語.",
        "",
        "# Page headers",
        "Example Ltd, Main Street 1",
        "",
      ].join("\n"),
      notes: ["Left out: characters of hidden text (12)."],
    });
  });

  const run = (text: string, properties = ""): string =>
    `<w:r><w:rPr>${properties}</w:rPr><w:t xml:space="preserve">${text}</w:t></w:r>`;
  const bodyOf = async (body: string, ...more: Parameters<typeof docx>[1][]) =>
    extracted(docx(body, ...(more as never[])));

  test("is read as it stands after tracked changes", async () => {
    const body = `<w:p>${run("We ")}<w:del>${run("").replace("<w:t", "<w:delText").replace("</w:t>", "refuse</w:delText>")}</w:del><w:ins>${run("accept")}</w:ins><w:moveFrom>${run("moved")}</w:moveFrom>${run(" today", "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>")}</w:p><w:p><w:moveTo>${run("moved")}</w:moveTo></w:p>`;
    expect(await bodyOf(body)).toEqual({
      text: "We accept today\nmoved\n",
      notes: ["Left out: characters of deleted text (6)."],
    });
  });

  test("hides text by a style, also one that is based on another, and shows what switches hiding off", async () => {
    const style = (id: string, inside: string) => `<w:style w:styleId="${id}">${inside}</w:style>`;
    const styles = `<w:styles>${style("Secret", "<w:rPr><w:vanish/></w:rPr>")}${style("Child", '<w:basedOn w:val="Secret"/>')}${style("Loop", '<w:basedOn w:val="Loop"/>')}${style("Shown", '<w:basedOn w:val="Secret"/><w:rPr><w:vanish w:val="0"/></w:rPr>')}</w:styles>`;
    const body = `<w:p>${run("one ", '<w:rStyle w:val="Child"/>')}${run("two ", '<w:rStyle w:val="Shown"/>')}${run("three ", '<w:rStyle w:val="Loop"/>')}${run("four", '<w:vanish w:val="false"/>')}</w:p><w:p><w:pPr><w:pStyle w:val="Secret"/></w:pPr>${run("five")}</w:p>`;
    const found = await bodyOf(body, relations("word/document.xml", { rId1: ["styles", "styles.xml"] }), {
      name: "word/styles.xml",
      content: styles,
    });
    expect(found).toEqual({ text: "two three four\n\n", notes: ["Left out: characters of hidden text (8)."] });
  });

  test("has its notes, comments, lists, links and text boxes", async () => {
    const body = `<w:p><w:pPr><w:numPr/></w:pPr>${run("item")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p><w:p><w:hyperlink r:id="rId9">${run("our page")}</w:hyperlink></w:p><w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>${paragraph("boxed")}</w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent>${paragraph("boxed")}</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r>${run("around")}</w:p>`;
    const found = await bodyOf(
      body,
      relations("word/document.xml", {
        rId1: ["footnotes", "footnotes.xml"],
        rId2: ["comments", "/word/comments.xml"],
        rId9: ["hyperlink", "https://page.example/?a=1&amp;b=2", "External"],
      }),
      {
        name: "word/footnotes.xml",
        content: `<w:footnotes><w:footnote w:type="separator" w:id="0">${paragraph("---")}</w:footnote><w:footnote w:id="2">${paragraph("a note")}</w:footnote></w:footnotes>`,
      },
      {
        name: "word/comments.xml",
        content: `<w:comments><w:comment w:id="1" w:author="Ben">${paragraph("is that right?")}</w:comment></w:comments>`,
      },
    );
    expect(found).toEqual({
      text: "- item[2]\nour page <https://page.example/?a=1&b=2>\naround\nboxed\n\n# Footnotes\n[2] a note\n\n# Comments\nBen: is that right?\n",
      notes: [],
    });
  });

  test("may be of another producer: other prefixes, UTF-16, parts in other places", async () => {
    const xml = `<?xml version="1.0" encoding="UTF-16"?><ns0:document><ns0:body><ns0:p><ns0:r><ns0:t>Grüße</ns0:t></ns0:r></ns0:p></ns0:body></ns0:document>`;
    const bytes = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(xml, "utf16le")]);
    expect(await extracted(zip(officeEntries("other/main.xml", bytes)))).toEqual({ text: "Grüße\n", notes: [] });
  });

  test("expands no entity of a DTD", async () => {
    const dtd = `<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY f SYSTEM "file:///etc/passwd">]>`;
    expect(
      await extracted(zip(officeEntries("word/document.xml", dtd + wordXml(paragraph("&a;&f;&amp;&#65;"))))),
    ).toEqual({
      text: "&a;&f;&A\n",
      notes: [],
    });
  });
});

describe("a workbook", () => {
  test("has sheets with values as they are shown, without what is hidden", async () => {
    expect(await extracted(await file("sums.xlsx"))).toEqual({
      text: [
        "# Sheet: Sums",
        "Month\tSum\tShare\tDate\tWhen",
        "May\t17.3\t25%\t2026-05-01\t2026-05-01 09:30:00",
        "June\t\t\t\tTRUE",
        "",
        "Comments:",
        "B2: Check this sum",
        "",
        "# Sheet: Last",
        "",
      ].join("\n"),
      notes: ["Left out: hidden rows (1), hidden columns (1), hidden sheets (1)."],
    });
  });

  test.each([
    ["yyyy-mm-dd", "45000.75", "2023-03-15"],
    ["d.m.yyyy h:mm", "45000.75", "2023-03-15 18:00:00"],
    ["d. mmmm yyyy", "45000", "2023-03-15"],
    ["h:mm AM/PM", "0.5", "12:00:00"],
    ["mm:ss", "0.5", "12:00:00"],
    ["[h]:mm", "1.5", "36:00:00"],
    ["[$-409]d-mmm-yy;@", "45000", "2023-03-15"],
    ["0.0%", "0.125", "12.5%"],
    ['#,##0.00 "days"', "12.5", "12.5"],
    ["General", "0.30000000000000004", "0.3"],
    ["General", "1e400", "1e400"],
    ["yyyy", "99999999999", "99999999999"],
    ["yyyy", "-3", "-3"],
  ])("shows a value in the format %s: %s is %s", async (format, value, shown) => {
    const styles = `<numFmts><numFmt numFmtId="164" formatCode="${format.replaceAll('"', "&quot;")}"/></numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs>`;
    const xml = `<sheetData><row><c s="1"><v>${value}</v></c></row></sheetData>`;
    expect(await extracted(xlsx([{ name: "A", xml }], { styles }))).toEqual({
      text: `# Sheet: A\n${shown}\n`,
      notes: [],
    });
  });

  test("counts dates from 1904 when it says so", async () => {
    const styles = '<cellXfs><xf numFmtId="14"/></cellXfs>';
    const xml = "<sheetData><row><c><v>1</v></c></row></sheetData>";
    const workbook = '<workbookPr date1904="1"/>';
    expect((await extracted(xlsx([{ name: "A", xml }], { styles, workbook }))).text).toBe("# Sheet: A\n1904-01-02\n");
  });

  test("takes strings from its table, without phonetic ones, and lives with odd cells", async () => {
    const strings = "<si><r><t>To</t></r><r><t>kyo</t></r><rPh><t>とうきょう</t></rPh></si>";
    const xml =
      '<sheetData><row><c r="C1" t="s"><v>0</v></c><c t="s"><v>7</v></c><c r="A1" t="b"><v>0</v></c><c t="e"><v>#N/A</v></c></row></sheetData>';
    expect((await extracted(xlsx([{ name: "A", xml }], { strings }))).text).toBe(
      "# Sheet: A\n\t\tTokyo\tFALSE\t#N/A\n",
    );
  });

  test("gives the first 100,000 rows", async () => {
    const rows = Array.from({ length: 100_010 }, (_, i) => (i < 3 ? row(i + 1, `r${i}`) : `<row r="${i * 7919}"/>`));
    const found = await extracted(xlsx([{ name: "A", xml: rows.join("") }]));
    expect(found).toEqual({
      text: "# Sheet: A\nr0\nr1\nr2\n",
      notes: ["Left out: what follows the first 100000 rows."],
    });
  });
});

describe("a presentation", () => {
  test("has slides under their titles, tables and notes, and no hidden slide", async () => {
    expect(await extracted(await file("plans.pptx"))).toEqual({
      text: "# Slide 1: Plans\nOne\nTwo\nt00\tt01\nt10\tt11\n\nNotes:\nSay hello\n\n# Slide 3: End\n",
      notes: ["Left out: hidden slides (1)."],
    });
  });

  test("keeps hidden shapes out, also in a hidden group, and has comments", async () => {
    const group = `<p:grpSp><p:nvGrpSpPr><p:cNvPr id="1" name="G" hidden="1"/></p:nvGrpSpPr>${shape(["in the group"])}</p:grpSp>`;
    const found = await extracted(
      pptx(
        [
          slide(
            shape(["Title"], { placeholder: "ctrTitle" }) +
              shape(["7"], { placeholder: "sldNum" }) +
              shape(["a", "b"]) +
              shape(["x"], { hidden: true }) +
              group,
          ),
        ],
        relations("ppt/slides/slide1.xml", { rId1: ["comments", "../comments/comment1.xml"] }),
        { name: "ppt/comments/comment1.xml", content: "<p:cmLst><p:cm><p:text>Change this</p:text></p:cm></p:cmLst>" },
      ),
    );
    expect(found).toEqual({
      text: "# Slide 1: Title\na\nb\n\nComments:\nChange this\n",
      notes: ["Left out: hidden shapes (2)."],
    });
  });

  test("gives the first 1,000 slides", async () => {
    const found = await extracted(pptx(Array.from({ length: 1_003 }, (_, i) => slide(shape([`s${i}`])))));
    expect(found.notes).toEqual(["Left out: slides 1001 to 1003."]);
    expect(found.text).toEndWith("# Slide 1000\ns999\n");
  }, 30_000);
});
