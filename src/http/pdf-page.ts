/**
 * The document in which a PDF is drawn, inside an iframe of the app. A PDF is hostile, and what reads it is large: so it is
 * read by pdf.js in an origin of its own, without cookies, storage or network, which knows nothing but the bytes that the
 * app hands it. Where it fails, the file can still be downloaded.
 *
 * Invariant: nothing but the viewer's own script and style is loaded in it, and nothing is sent from it.
 */

import { VIEWER_PATH, VIEWER_SANDBOX } from "../base/frames.ts";
import { type Assets, type File, fileOf, fileResponse, openAssets } from "./files.ts";
import type { Pages } from "./pages.ts";

const PREFIX = "/assets/pdf/";

const DOCUMENT_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src blob: data:",
    "font-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
    `sandbox ${VIEWER_SANDBOX}`,
  ].join("; "),
  "x-frame-options": "SAMEORIGIN",
};

/** Asked for by an origin that is not ours: the document's own. They are the same for everybody. */
const FILE_HEADERS = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

interface Files {
  document: File;
  assets: Assets;
}

async function readFiles(): Promise<Files> {
  const { script, style } = await import("./pdf-files.ts");
  const assets = openAssets(PREFIX);
  const paths = {
    script: assets.add("js", "text/javascript; charset=utf-8", script),
    style: assets.add("css", "text/css; charset=utf-8", style),
  };
  const document = `<!doctype html>
<html lang="und">
<head>
<meta charset="utf-8">
<title>PDF</title>
<link rel="stylesheet" href="${paths.style}">
<script type="module" crossorigin src="${paths.script}"></script>
</head>
<body></body>
</html>
`;
  return { document: fileOf("text/html; charset=utf-8", document), assets };
}

/** `headers` go on every answer. */
export function createPdfPage(headers: Readonly<Record<string, string>>): Pages {
  let files: Promise<Files> | undefined;

  return async (request, path) => {
    if (path !== VIEWER_PATH && !path.startsWith(PREFIX)) return undefined;
    files ??= readFiles();
    const { document, assets } = await files;
    const answer =
      path === VIEWER_PATH ? fileResponse(request, document, headers) : assets.respond(request, path, headers);
    const more = path === VIEWER_PATH ? DOCUMENT_HEADERS : FILE_HEADERS;
    for (const [name, value] of Object.entries(more)) answer?.headers.set(name, value);
    return answer;
  };
}
