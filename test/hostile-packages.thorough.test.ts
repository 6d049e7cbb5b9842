/**
 * Packages that read what strangers sent, in the ways in which the server has them read it: time grows with the input. They
 * cannot count their work, so their CPU time is compared; hostile-input.thorough.test.ts and hostile-answers.thorough.test.ts have
 * mailauth, imapflow, busboy, iconv-lite, yauzl and others.
 */
import { describe, test } from "bun:test";
import { finished } from "node:stream/promises";
import { SMTPStream } from "smtp-server/lib/smtp-stream.js";
import { readCalendar } from "../src/documents/calendar.ts";
import { createExtractedText } from "../src/documents/extracted-text.ts";
import { readInvitation } from "../src/documents/invitation.ts";
import { readPdf } from "../src/documents/pdf.ts";
import { composeMessage } from "../src/message/compose.ts";
import { textOfHtml } from "../src/message/layout.ts";
import { createHtmlBudget } from "../src/message/markup.ts";
import { sanitizeHtml } from "../src/message/sanitize.ts";
import { visibleHtml, visibleTextForModel } from "../src/message/visible.ts";
import { cpuTime, expectLinear } from "./harness/growth.ts";
import { onePage, pdf, pdfOf } from "./harness/mail/documents.ts";
import { HOSTILE_HTML } from "./harness/mail/hostile-html.ts";
import { expectLinearText } from "./harness/mail/hostile-text.ts";

const LIMIT_MS = 240_000;

/** Reads what may be refused. */
async function attempt(read: () => unknown): Promise<void> {
  try {
    await read();
  } catch {}
}

const unlimited = () => createHtmlBudget(Number.POSITIVE_INFINITY);
const noTime = () => createExtractedText(() => 0);

/** Gives octets to a stream of smtp-server as they come from a socket, in pieces. */
async function feed(stream: SMTPStream, octets: Buffer): Promise<void> {
  for (let at = 0; at < octets.length; at += 1_460) {
    await new Promise((resolve) => stream.write(octets.subarray(at, at + 1_460), resolve));
  }
}

function commands(text: string): Promise<void> {
  const stream = new SMTPStream({ maxCommandLength: 2_048 });
  stream.on("error", () => {});
  stream.oncommand = (_command, next) => next?.();
  return feed(stream, Buffer.from(text));
}

async function data(text: string): Promise<void> {
  const stream = new SMTPStream();
  const content = stream.startDataMode(1_000_000).resume();
  stream.continue();
  await feed(stream, Buffer.from(`${text}\r\n.\r\n`));
  await finished(content);
}

describe("smtp-server", () => {
  const lines = ["NOOP\r\n", "\r\n", "\n", "\r", "a", "MAIL FROM:<", "\0", "é"];
  test("commands", () => expectLinearText(commands, [50_000, 200_000], lines), LIMIT_MS);
  const dots = ["\r\n..", "\r\n.\r", "\n.", ".", "\r", "\r\n", "..\r\n", "a"];
  test("messages", () => expectLinearText(data, [50_000, 200_000], dots), LIMIT_MS);
});

describe("htmlparser2, sanitize-html and the tokens of css-tree", () => {
  const read = (html: string): unknown => [
    visibleHtml(html, unlimited()),
    sanitizeHtml(html, unlimited()),
    visibleTextForModel("https://a.example/", html),
  ];
  test.each(Object.entries(HOSTILE_HTML))(
    "%s",
    // Three doublings: quadratic work would grow 64-fold and fails from fourfold growth on. Objects with very many
    // attributes cost more.
    (_, make) => expectLinear({ make, work: (html) => cpuTime(() => read(html)), sizes: [2_000, 16_000], atMost: 2.5 }),
    LIMIT_MS,
  );

  const markup = [
    "<",
    "<a",
    "<a ",
    "</",
    "</a>",
    "<!",
    "<!--",
    "<!-- ",
    "--!>",
    "<![CDATA[",
    "]]>",
    "<?",
    "&",
    "&#",
    "&amp",
    "&#x41;",
  ];
  const attributes = [
    "<a b=",
    "<a b='",
    '<a b="c" ',
    "<a style='a:b;",
    "<a href=javascript:",
    "<img src=data:",
    " = ",
    "/",
  ];
  const elements = [
    "<p>",
    "<table><tr><td>",
    "<svg><style>",
    "<title>",
    "<textarea>",
    "<script>",
    "<template>",
    "<select><option>",
  ];
  const sheets = [
    "<style>",
    "<style>a{",
    "<style>@import '",
    "<style>/*",
    "<style>a,",
    "<style>\\",
    "<style>url(",
    "<style>@media ",
  ];
  test(
    "pieces of tags",
    () =>
      expectLinearText(
        (html) => [read(html), textOfHtml(html, unlimited())],
        [4_000, 16_000],
        [...markup, ...attributes, ...elements, ...sheets],
      ),
    LIMIT_MS,
  );
});

describe("ical.js", () => {
  const calendar = (body: string) =>
    Buffer.from(
      `BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260101T100000Z\r\n${body}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n`,
    );
  const units = [
    ...' \r\n;:=,\\"',
    "BEGIN:VEVENT\r\n",
    "END:VEVENT\r\n",
    "BEGIN:VTIMEZONE\r\nTZID:x\r\nBEGIN:STANDARD\r\n",
    "\r\n ",
    "DESCRIPTION:a\\n",
    "X-A;B=",
    'X-A;B="',
    'X-A;B="c",',
    "RDATE:20260101T000000,",
    "RDATE;VALUE=PERIOD:20260101T000000Z/PT1H\r\n",
    "RRULE:FREQ=DAILY;BYDAY=MO,",
    "BYDAY=MO,",
    "DTSTART;TZID=Europe/Berlin:20260101T000000\r\n",
    "ATTENDEE;CN=a;PARTSTAT=NEEDS-ACTION:mailto:a@b.example\r\n",
    "EXDATE:20260101T000000Z\r\n",
    "CATEGORIES:a,",
  ];
  test(
    "calendar files and invitations",
    () =>
      expectLinearText(
        async (text) => {
          const bytes = calendar(text);
          readInvitation(bytes);
          await attempt(() => readCalendar(bytes, noTime()));
        },
        [8_000, 32_000],
        units,
      ),
    LIMIT_MS,
  );
});

test(
  "nodemailer's writer, of what a caller gave",
  () =>
    expectLinearText(
      (text) => {
        const line = text.replaceAll(/[\r\n\0]/g, " ");
        composeMessage({
          id: `msg_${line}`,
          headers: [
            ["Subject", line],
            ["To", line],
            ["References", line],
            ["X-A", `é${line}`],
          ],
          text,
          html: `<p>${text}`,
          attachments: ["attachment", "inline", "alternative"].map((kind) => ({
            filename: line,
            contentType: kind === "attachment" ? line : "image/png",
            parameters: [["x", line]],
            alternative: kind === "alternative",
            content: Buffer.from(text),
            inline: kind === "inline",
            contentId: line,
          })),
        });
      },
      [4_000, 16_000],
    ),
  LIMIT_MS,
);

/** Two things that it reads in quadratic time end with their parser: workers/documents.system.test.ts. */
describe("pdf.js", () => {
  const read = (bytes: Uint8Array<ArrayBuffer>) => attempt(() => readPdf(bytes, noTime()));

  const content = ["BT (a) Tj ET\n", "(", "<", "[", "<<", "/A ", "1 ", "% ", "\\", "BI ", "BI ID ", "/F1 1 Tf ", "Do "];
  test(
    "streams of a page",
    () =>
      expectLinearText((text) => read(pdf([`BT /F1 11 Tf 50 800 Td (a) Tj ET ${text}`])), [16_000, 64_000], content),
    LIMIT_MS,
  );

  const broken = [
    "1 0 obj\n",
    "<<",
    "(",
    "[",
    "/A",
    "xref\n",
    "trailer\n",
    "trailer\n<< /Root 1 0 R >>\n",
    "stream\n",
    "endobj\n",
    "% ",
    "startxref\n0\n",
    "\n",
    " ",
  ];
  test(
    "files that are broken",
    () => expectLinearText((text) => read(new Uint8Array(Buffer.from(`%PDF-1.7\n${text}`))), [16_000, 64_000], broken),
    LIMIT_MS,
  );

  const shapes: Record<string, (size: number) => Uint8Array<ArrayBuffer>> = {
    objects: (size) =>
      pdfOf([
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [] /Count 0 >>",
        ...Array(size).fill("<< /A 1 >>"),
      ]),
    "entries of a dictionary": (size) =>
      onePage(
        { dictionary: "", stream: "BT /F1 11 Tf (a) Tj ET" },
        `<< ${Array.from({ length: size }, (_, n) => `/A${n} 1`).join(" ")} >>`,
      ),
    pages: (size) => pdf(Array.from({ length: size / 20 }, () => "BT /F1 11 Tf 50 800 Td (a) Tj ET")),
    notes: (size) =>
      pdf(["BT /F1 11 Tf (a) Tj ET"], {
        page: `/Annots [${Array.from({ length: size / 4 }, () => "<< /Type /Annot /Subtype /Text /Rect [0 0 1 1] /Contents (a) >>").join(" ")}]`,
      }),
  };
  test.each(Object.entries(shapes))(
    "%s",
    (_, make) =>
      expectLinear({ make, sizes: [1_000, 4_000], atMost: 2.6, work: (bytes) => cpuTime(() => read(bytes)) }),
    LIMIT_MS,
  );
});
