/**
 * Draws a PDF from the page around it with pdf.js, in a frame with an origin of its own (src/http/pages.ts). A page
 * is drawn when it scrolls near; its text is beside it for screen readers.
 */
import "./viewer.css";
import { GlobalWorkerOptions, getDocument, type PDFPageProxy } from "pdfjs-dist";
import "pdfjs-dist/build/pdf.worker.mjs";

/** Message to the viewer: the file, once the viewer is ready. */
interface ToViewer {
  bytes: ArrayBuffer;
}

/** Message from the viewer. `shown`: the first page is there; `escape`: the person pressed Escape. */
export interface FromViewer {
  kind: "ready" | "shown" | "failed" | "escape";
}

/** Most pixels of an image or a drawn page, since a small file can expand to a huge image. */
const MOST_PIXELS = 25_000_000;
const MOST_PAGES = 500;
const MOST_TEXT = 50_000;

const tell = (message: FromViewer): void => parent.postMessage(message, "*");

async function draw(page: PDFPageProxy, box: HTMLElement): Promise<void> {
  const [width, height] = [box.clientWidth, box.clientHeight];
  const { width: own } = page.getViewport({ scale: 1 });
  const sharp = Math.min(2, devicePixelRatio, Math.sqrt(MOST_PIXELS / Math.max(1, width * height)));
  const viewport = page.getViewport({ scale: (width / own) * sharp });
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(viewport.width);
  canvas.height = Math.floor(viewport.height);
  canvas.ariaHidden = "true";
  await page.render({ canvas, viewport }).promise;
  const { items } = await page.getTextContent();
  const text = document.createElement("p");
  text.textContent = items
    .map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : ""))
    .join("")
    .slice(0, MOST_TEXT);
  box.replaceChildren(canvas, text);
}

async function show({ bytes }: ToViewer): Promise<void> {
  const { numPages, getPage } = await open(bytes);
  const waiting = new Map<Element, PDFPageProxy>();
  const near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const page = isIntersecting ? waiting.get(target) : undefined;
        if (!page) continue;
        waiting.delete(target);
        near.unobserve(target);
        draw(page, target as HTMLElement).catch(() => tell({ kind: "failed" }));
      }
    },
    { rootMargin: "400px" },
  );
  for (let number = 1; number <= Math.min(numPages, MOST_PAGES); number++) {
    const page = await getPage(number);
    const { width, height } = page.getViewport({ scale: 1 });
    const box = document.createElement("section");
    box.ariaLabel = `Page ${number} of ${numPages}`;
    box.style.aspectRatio = `${width} / ${height}`;
    document.body.append(box);
    waiting.set(box, page);
    near.observe(box);
    if (number === 1) tell({ kind: "shown" });
  }
}

async function open(bytes: ArrayBuffer) {
  const pdf = await getDocument({
    data: new Uint8Array(bytes),
    isEvalSupported: false,
    enableXfa: false,
    useSystemFonts: true,
    useWasm: false,
    maxImageSize: MOST_PIXELS,
    verbosity: 0,
  }).promise;
  return { numPages: pdf.numPages, getPage: (number: number) => pdf.getPage(number) };
}

// The worker is bundled into this file, so this URL is never fetched.
GlobalWorkerOptions.workerSrc = "none:";
window.addEventListener("message", ({ data, source }: MessageEvent<ToViewer>) => {
  if (source === parent) show(data).catch(() => tell({ kind: "failed" }));
});
window.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") tell({ kind: "escape" });
});
tell({ kind: "ready" });
