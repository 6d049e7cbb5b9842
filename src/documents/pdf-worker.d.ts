/** The part of pdf.js that reads, which takes its place in globalThis when it is imported. */
declare module "pdfjs-dist/build/pdf.worker.mjs";
