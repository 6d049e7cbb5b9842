/**
 * The API reference (rules: Web), rendered from the OpenAPI documents on the first request for it. It is HTML that
 * browsers show without its script too. It contains nobody's data, so it needs neither key nor session.
 */

import { createTools } from "../api/mcp/tools.ts";
import { describeApi } from "../api/openapi.ts";
import type { ApiDocument } from "../api/reference/openapi-document.ts";
import { ADMIN_API, EXT_API, MAIL_API, openApiDocumentPath, REFERENCE_PATH, type Surface } from "../api/surfaces.ts";
import type { Core } from "../store/core.ts";
import { addFonts, ICON, type Pages } from "./pages.ts";
import { type Assets, type File, fileResponse, makeStaticFile, openAssets } from "./static-files.ts";

/** Responds to a GET or HEAD for the reference or one of its files; undefined for other paths. */
export function createReferencePages({ site: { baseUrl } }: Core, headers: Readonly<Record<string, string>>): Pages {
  const describe = (surface: Surface) => ({
    // The document is made as JSON; this names its type.
    document: describeApi(surface, baseUrl) as unknown as ApiDocument,
    path: openApiDocumentPath(surface),
  });
  let written: Promise<{ page: File; assets: Assets }> | undefined;

  async function write(): Promise<{ page: File; assets: Assets }> {
    const [{ script, style }, { renderReference }] = await Promise.all([
      import("./reference-files.ts"),
      import("../api/reference/reference-page.tsx"),
    ]);
    const assets = openAssets(`${REFERENCE_PATH}/`);
    const fonts = await addFonts(assets);
    const html = renderReference({
      apis: [
        describe(MAIL_API),
        { name: "Further mail", ...describe(EXT_API) },
        { name: "Administration", ...describe(ADMIN_API) },
      ],
      tools: createTools(MAIL_API.operations).all,
      origin: baseUrl,
      files: {
        script: assets.add("js", "text/javascript; charset=utf-8", script),
        style: assets.add("css", "text/css; charset=utf-8", fonts.styles + style),
        icon: assets.add("svg", "image/svg+xml", ICON),
      },
    });
    return { page: makeStaticFile("text/html; charset=utf-8", html), assets };
  }

  return async (request, path) => {
    const isPage = path === REFERENCE_PATH || path === `${REFERENCE_PATH}/`;
    if (!isPage && !path.startsWith(`${REFERENCE_PATH}/`)) return undefined;
    written ??= write();
    const { page, assets } = await written;
    return isPage ? fileResponse(request, page, headers) : assets.respond(request, path, headers);
  };
}
