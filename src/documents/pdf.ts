/**
 * The text of a PDF, page by page, with the values of its form and the notes on its pages. pdf.js reads it here without a
 * page around it: nothing is drawn, no image is decoded, no script of the PDF is run (pdf.js needs an interpreter of its
 * own for them, which is not part of the program), and nothing is fetched.
 *
 * Colour is not looked at: the text of a scanned page is invisible by design.
 */
import { Enough, type Text, Unreadable } from "./extracted-text.ts";

const MOST_PAGES = 2_000;
/** A gap between words that is wider than so many times their height is one between columns. */
const COLUMN_GAP = 1.5;
/** Lines are further apart between paragraphs: times the height of the text. */
const PARAGRAPH_GAP = 1.9;

/** Flags of annotations that viewers do not show: invisible, hidden, no view (ISO 32000-1, table 165). */
const NOT_SHOWN = 1 | 2 | 32;
const BROKEN = "it is broken";

type PdfJs = typeof import("pdfjs-dist");
type Page = Awaited<ReturnType<Awaited<ReturnType<PdfJs["getDocument"]>["promise"]>["getPage"]>>;
type Items = Awaited<ReturnType<Page["getTextContent"]>>["items"];

async function load(): Promise<PdfJs> {
  const { warn } = console;
  // pdf.js warns of a platform that cannot draw.
  console.warn = () => {};
  try {
    // Only drawing uses it.
    Object.assign(globalThis, { DOMMatrix: class {} });
    await import("pdfjs-dist/build/pdf.worker.mjs");
    return await import("pdfjs-dist");
  } finally {
    console.warn = warn;
  }
}

export async function readPdf(bytes: Uint8Array<ArrayBuffer>, text: Text): Promise<void> {
  const { getDocument } = await load();
  const loading = getDocument({
    data: bytes,
    isEvalSupported: false,
    enableXfa: false,
    useSystemFonts: false,
    disableFontFace: true,
    useWasm: false,
    maxImageSize: 1,
    CMapReaderFactory: EmbeddedCMaps,
    cMapUrl: "cmaps/",
    verbosity: 0,
  });
  try {
    const pdf = await loading.promise.catch((error: Error) => {
      throw new Unreadable(error.name === "PasswordException" ? "it is encrypted" : BROKEN, { cause: error });
    });
    let hasText = false;
    let isBroken = false;
    for (let number = 1; number <= pdf.numPages; number++) {
      if (number > MOST_PAGES) throw new Enough(`pages ${MOST_PAGES + 1} to ${pdf.numPages}`);
      text.title(`--- page ${number} of ${pdf.numPages} ---`);
      try {
        const isEmpty = !(await readPage(await pdf.getPage(number), text));
        if (isEmpty) text.leaveOut("pages without text, perhaps pictures of it");
        hasText ||= !isEmpty;
      } catch (error) {
        if (error instanceof Enough) throw error;
        text.leaveOut("pages that are broken");
        isBroken = true;
      }
    }
    if (!hasText && isBroken) throw new Unreadable(BROKEN);
    if (!hasText) throw new Unreadable("its pages have no text, perhaps pictures of it");
  } finally {
    await loading.destroy();
  }
}

/** False for a page without text. */
async function readPage(page: Page, text: Text): Promise<boolean> {
  const before = text.whole.length;
  const lines = createLines(text);
  const reader = (page.streamTextContent() as ReadableStream<{ items: Items }>).getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      for (const item of part.value.items) if ("str" in item) lines.add(item);
    }
  } catch (error) {
    await reader.cancel(new Error("the page is left")).catch(() => {});
    throw error;
  }
  text.endLine();
  await readAnnotations(page, text);
  page.cleanup();
  return text.whole.length > before;
}

/** Puts the pieces of a page together: pdf.js tells where lines end, and the width of gaps. */
function createLines(text: Text) {
  let last: number | undefined;
  let startsLine = true;
  return {
    add({ str, width, height, transform, hasEOL }: Extract<Items[number], { str: string }>): void {
      if (startsLine && str.trim() !== "") {
        const at = transform[5] as number;
        if (last !== undefined && Math.abs(last - at) > height * PARAGRAPH_GAP) text.add("\n");
        last = at;
      }
      const isGap =
        str.trim() === "" && width > COLUMN_GAP * Math.hypot(transform[2] as number, transform[3] as number);
      if (str !== "") {
        text.add(isGap ? "\t" : str);
        startsLine = false;
      }
      if (hasEOL) {
        text.add("\n");
        startsLine = true;
      }
    },
  };
}

/** The fields of an annotation of pdf.js that are read here. */
interface Annotation {
  annotationFlags?: number;
  subtype?: string;
  fieldName?: string;
  fieldValue?: string | string[] | null;
  password?: boolean;
  url?: string;
  titleObj?: { str: string };
  contentsObj?: { str: string };
}

async function readAnnotations(page: Page, text: Text): Promise<void> {
  const links = new Set<string>();
  for (const one of (await page.getAnnotations({ intent: "display" })) as Annotation[]) {
    text.look();
    const { annotationFlags = 0, subtype, fieldName, fieldValue, password, url, titleObj, contentsObj } = one;
    if (annotationFlags & NOT_SHOWN) continue;
    if (subtype === "Widget") {
      const value = [fieldValue ?? ""].flat().join(", ");
      if (fieldName && value !== "" && !password) text.add(`Field ${fieldName}: ${value}\n`);
    } else if (subtype === "Link") {
      if (url) links.add(url);
    } else if (subtype !== "Popup" && contentsObj?.str) {
      text.add(`Note${titleObj?.str ? ` by ${titleObj.str}` : ""}: ${contentsObj.str}\n`);
    }
  }
  if (links.size > 0) text.add(`Links: ${[...links].join(" ")}\n`);
}

/** Gives pdf.js the character maps that documents in Chinese, Japanese and Korean name and do not contain. */
class EmbeddedCMaps {
  async fetch({ name }: { name: string }): Promise<{ cMapData: Uint8Array; isCompressed: boolean }> {
    const { cmaps } = await import("./cmaps.ts");
    const packed = Object.hasOwn(cmaps, name) ? cmaps[name] : undefined;
    if (packed === undefined) throw new Error(`there is no character map ${name}`);
    return { cMapData: Uint8Array.fromBase64(packed), isCompressed: true };
  }
}
