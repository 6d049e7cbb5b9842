/** Writes the reference as HTML. The only file that knows React's server side. */
import { renderToStaticMarkup } from "react-dom/server";
import { type Api, type Files, Page } from "./page.tsx";

export type { Api, Files };

/** As Page has it. */
export const renderReference = (given: { apis: readonly [Api, Api]; origin: string; files: Files }): string =>
  `<!doctype html>${renderToStaticMarkup(<Page {...given} />)}`;
