/** Writes the reference as HTML. The only file that knows React's server side. */
import { renderToStaticMarkup } from "react-dom/server";
import type { ApiDocument } from "./document.ts";
import { type Files, Page } from "./page.tsx";

export type { Files };

/** `origin`: where the server is for others; `documentPath`: of openapi.json. */
export const renderReference = (given: {
  document: ApiDocument;
  origin: string;
  documentPath: string;
  files: Files;
}): string => `<!doctype html>${renderToStaticMarkup(<Page {...given} />)}`;
