/**
 * The API reference (rules: Web), written from the OpenAPI documents when it is first asked for. It is HTML that can be
 * read without its script, and holds nothing of anybody's, so that it takes neither key nor session.
 */
import { describeApi } from "../api/openapi.ts";
import type { ApiDocument } from "../api/reference/document.ts";
import { ADMIN_API, documentPathOf, MAIL_API, type Surface } from "../api/surfaces.ts";
import { addFonts, ICON } from "./brand.ts";
import { type Assets, type File, fileOf, fileResponse, openAssets } from "./files.ts";
import type { Pages } from "./pages.ts";

/** Where it is, and below it its files. */
export const REFERENCE_PATH = "/api/docs";

export interface ReferenceParts {
  /** Public origin. */
  baseUrl: string;
  headers: Readonly<Record<string, string>>;
}

/** Answers a GET or HEAD for the reference or one of its files; undefined for any other path. */
export function createReference({ baseUrl, headers }: ReferenceParts): Pages {
  const describe = (surface: Surface) => ({
    // What was written as JSON, read as what it is.
    document: describeApi(surface, baseUrl) as unknown as ApiDocument,
    path: documentPathOf(surface),
  });
  let written: Promise<{ page: File; assets: Assets }> | undefined;

  async function write(): Promise<{ page: File; assets: Assets }> {
    const [{ script, style }, { renderReference }] = await Promise.all([
      import("./reference-files.ts"),
      import("../api/reference/render.tsx"),
    ]);
    const assets = openAssets(`${REFERENCE_PATH}/`);
    const fonts = await addFonts(assets);
    const html = renderReference({
      apis: [describe(MAIL_API), describe(ADMIN_API)],
      origin: baseUrl,
      files: {
        script: assets.add("js", "text/javascript; charset=utf-8", script),
        style: assets.add("css", "text/css; charset=utf-8", fonts.styles + style),
        icon: assets.add("svg", "image/svg+xml", ICON),
      },
    });
    return { page: fileOf("text/html; charset=utf-8", html), assets };
  }

  return async (request, path) => {
    const isPage = path === REFERENCE_PATH || path === `${REFERENCE_PATH}/`;
    if (!isPage && !path.startsWith(`${REFERENCE_PATH}/`)) return undefined;
    written ??= write();
    const { page, assets } = await written;
    return isPage ? fileResponse(request, page, headers) : assets.respond(request, path, headers);
  };
}
