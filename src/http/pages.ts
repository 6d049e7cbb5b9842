/**
 * The pages of the browser app: one document for all paths, with its styles and scripts. They contain nobody's data; the
 * scripts fetch that under /app. File names are hashes, so browsers keep the files for good.
 */

import { addFonts, ICON } from "./brand.ts";
import { type Assets, type File, fileOf, fileResponse, openAssets } from "./files.ts";

/** First parts of the paths that the app's router knows (app/router.tsx). */
const PAGES = /^\/(?:$|sign-in$|setup$|mail(?:\/|$)|settings(?:\/|$))/;

const SCRIPT = "text/javascript; charset=utf-8";

interface Files {
  document: File;
  assets: Assets;
}

async function readFiles(): Promise<Files> {
  const { script, style, chunks, first } = await import("./app-files.ts");
  const assets = openAssets("/assets/");
  const fonts = await addFonts(assets);
  for (const [name, chunk] of Object.entries(chunks)) assets.addNamed(name, SCRIPT, chunk);
  const paths = {
    script: assets.add("js", SCRIPT, script),
    first: first.map((name) => `/assets/${name}`),
    style: assets.add("css", "text/css; charset=utf-8", fonts.styles + style),
    icon: assets.add("svg", "image/svg+xml", ICON),
  };
  const document = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" content="#f6f5f2" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="#161718" media="(prefers-color-scheme: dark)">
<title>Mailroom</title>
<link rel="icon" href="${paths.icon}" type="image/svg+xml">
<link rel="preload" href="${fonts.first}" as="font" type="font/woff2" crossorigin>
<link rel="stylesheet" href="${paths.style}">
${paths.first.map((path) => `<link rel="modulepreload" href="${path}">`).join("\n")}
<script type="module" src="${paths.script}"></script>
</head>
<body>
<div id="root"></div>
<noscript>Mailroom needs JavaScript. Programs use the API: <a href="/api/docs">/api/docs</a></noscript>
</body>
</html>
`;
  return { document: fileOf("text/html; charset=utf-8", document), assets };
}

/** Responds to a GET or HEAD for a page or one of its files; undefined for other paths. `headers` go on every response. */
export type Pages = (request: Request, path: string) => Promise<Response | undefined>;

export function createPages(headers: Readonly<Record<string, string>>): Pages {
  let files: Promise<Files> | undefined;

  return async (request, path) => {
    const isPage = PAGES.test(path);
    if (!isPage && !path.startsWith("/assets/")) return undefined;
    files ??= readFiles();
    const { document, assets } = await files;
    if (isPage) return fileResponse(request, document, headers);
    return assets.respond(request, path, headers);
  };
}
