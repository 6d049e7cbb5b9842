/**
 * The pages of the browser app: one document for all paths, with its styles and scripts, and the viewer of PDFs. They
 * contain nobody's data; the scripts fetch that under /app. File names are hashes, so browsers keep the files for good.
 */
import { createHash } from "node:crypto";
import cyrillic from "@fontsource-variable/geist/files/geist-cyrillic-wght-normal.woff2" with { type: "file" };
import latinExtended from "@fontsource-variable/geist/files/geist-latin-ext-wght-normal.woff2" with { type: "file" };
import latin from "@fontsource-variable/geist/files/geist-latin-wght-normal.woff2" with { type: "file" };
import { VIEWER_PATH, VIEWER_SANDBOX } from "../base/frames.ts";
import { AUTHORIZE_PATH } from "../oauth/metadata.ts";
import icon192 from "./icons/icon-192.png" with { type: "file" };
import icon512 from "./icons/icon-512.png" with { type: "file" };
import iconApple from "./icons/icon-apple-180.png" with { type: "file" };
import iconMask from "./icons/icon-mask-512.png" with { type: "file" };
import { type Assets, type File, fileResponse, makeStaticFile, openAssets } from "./static-files.ts";

/** First parts of the paths that the app's router knows (app/router.tsx), and the page of OAuth (app/start.tsx). */
const PAGES = /^\/(?:$|sign-in$|setup$|password$|mail(?:\/|$)|approve(?:\/|$)|settings(?:\/|$)|oauth\/authorize$)/;

/**
 * Files that browsers and systems look for under these names: the service worker (rules: Service worker), the
 * manifest, icons.
 */
const NAMED = {
  worker: "/service-worker.js",
  manifest: "/manifest.webmanifest",
  small: "/icon-192.png",
  large: "/icon-512.png",
  mask: "/icon-mask-512.png",
  apple: "/apple-touch-icon.png",
} as const;
const NAMES: ReadonlySet<string> = new Set(Object.values(NAMED));

/** How systems show the installed app (W3C Web Application Manifest). */
const MANIFEST = {
  id: "/",
  name: "Mailroom",
  short_name: "Mailroom",
  start_url: "/mail/inbox",
  scope: "/",
  display: "standalone",
  background_color: "#f4f3ef",
  theme_color: "#f6f5f2",
  icons: [
    { src: NAMED.small, sizes: "192x192", type: "image/png" },
    { src: NAMED.large, sizes: "512x512", type: "image/png" },
    { src: NAMED.mask, sizes: "512x512", type: "image/png", purpose: "maskable" },
  ],
};

/** A program may open this page in a window of its own, and waits there for what comes back. */
const OPENED_BY_OTHERS = { "cross-origin-opener-policy": "unsafe-none" };

const SCRIPT = "text/javascript; charset=utf-8";

/**
 * Responds to a GET or HEAD for a page or one of its files; undefined for other paths. `headers` go on every response.
 */
export type Pages = (request: Request, path: string) => Promise<Response | undefined>;

interface Files {
  document: File;
  assets: Assets;
  /** Files by their path. */
  named: ReadonlyMap<string, File>;
  /** Paths of what the service worker keeps. */
  shell: string[];
}

async function readAppFiles(): Promise<Files> {
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
<link rel="manifest" href="${NAMED.manifest}">
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
  const shell = [
    paths.script,
    paths.style,
    paths.icon,
    fonts.first,
    ...Object.keys(chunks).map((name) => `/assets/${name}`),
  ];
  return { document: makeStaticFile("text/html; charset=utf-8", document), assets, named: await namedFiles(), shell };
}

/** `shell`: paths of the files that it keeps. Their names are hashes, and so are together a version. */
async function workerFile(shell: readonly string[]): Promise<File> {
  const { script } = await import("./worker-files.ts");
  const version = createHash("sha256").update(shell.join()).digest("base64url").slice(0, 12);
  return makeStaticFile(SCRIPT, `self.shell=${JSON.stringify({ version, paths: shell })};\n${script}`);
}

async function namedFiles(): Promise<ReadonlyMap<string, File>> {
  const icons = [
    [NAMED.small, icon192],
    [NAMED.large, icon512],
    [NAMED.mask, iconMask],
    [NAMED.apple, iconApple],
  ] as const;
  return new Map<string, File>([
    [NAMED.manifest, makeStaticFile("application/manifest+json", JSON.stringify(MANIFEST))],
    ...(await Promise.all(
      icons.map(async ([path, file]) => [path, makeStaticFile("image/png", await Bun.file(file).bytes())] as const),
    )),
  ]);
}

export function createAppPages(headers: Readonly<Record<string, string>>): Pages {
  let files: Promise<Files> | undefined;
  let worker: Promise<File> | undefined;

  return async (request, path) => {
    const isPage = PAGES.test(path);
    if (!isPage && !path.startsWith("/assets/") && !NAMES.has(path)) return undefined;
    files ??= readAppFiles();
    const { document, assets, named, shell } = await files;
    if (path === NAMED.worker) worker ??= workerFile(shell);
    const file = path === NAMED.worker ? await worker : named.get(path);
    if (file) return fileResponse(request, file, headers);
    if (isPage) {
      return fileResponse(request, document, path === AUTHORIZE_PATH ? { ...headers, ...OPENED_BY_OTHERS } : headers);
    }
    return assets.respond(request, path, headers);
  };
}

/*
 * The document in which a PDF is drawn, inside an iframe of the app. A PDF is hostile, and the code that reads it is
 * large. So pdf.js reads it in an origin of its own, without cookies, storage or network, which knows only the bytes
 * that the app hands it. Where it fails, the file can still be downloaded.
 *
 * Invariant: the document loads only the viewer's own script and style, and sends nothing.
 */

const VIEWER_PREFIX = "/assets/pdf/";

const VIEWER_HEADERS = {
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

/** The document has an origin of its own, which asks for its files. They are the same for everybody. */
const VIEWER_FILE_HEADERS = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

async function readViewerFiles(): Promise<Pick<Files, "document" | "assets">> {
  const { script, style } = await import("./pdf-files.ts");
  const assets = openAssets(VIEWER_PREFIX);
  const paths = {
    script: assets.add("js", SCRIPT, script),
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
  return { document: makeStaticFile("text/html; charset=utf-8", document), assets };
}

export function createPdfPage(headers: Readonly<Record<string, string>>): Pages {
  let files: ReturnType<typeof readViewerFiles> | undefined;

  return async (request, path) => {
    if (path !== VIEWER_PATH && !path.startsWith(VIEWER_PREFIX)) return undefined;
    files ??= readViewerFiles();
    const { document, assets } = await files;
    const response =
      path === VIEWER_PATH ? fileResponse(request, document, headers) : assets.respond(request, path, headers);
    const more = path === VIEWER_PATH ? VIEWER_HEADERS : VIEWER_FILE_HEADERS;
    for (const [name, value] of Object.entries(more)) response?.headers.set(name, value);
    return response;
  };
}

/*
 * The typeface of the app and of the API reference: Geist, by Vercel and Basement Studio (SIL Open Font License). A
 * browser fetches the part that has the letters on the page; the system's fonts show other scripts.
 */

/** Letters of each part, as in the package's own styles. */
const PARTS = [
  {
    file: latin,
    range:
      "U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+0304,U+0308,U+0329,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD",
  },
  {
    file: latinExtended,
    range:
      "U+0100-02BA,U+02BD-02C5,U+02C7-02CC,U+02CE-02D7,U+02DD-02FF,U+0304,U+0308,U+0329,U+1D00-1DBF,U+1E00-1E9F,U+1EF2-1EFF,U+2020,U+20A0-20AB,U+20AD-20C0,U+2113,U+2C60-2C7F,U+A720-A7FF",
  },
  { file: cyrillic, range: "U+0301,U+0400-045F,U+0490-0491,U+04B0-04B1,U+2116" },
] as const;

/**
 * Adds the parts to `assets`. `styles` names them as "Geist"; `first` is the path of the part that every page needs.
 */
export async function addFonts(assets: Assets): Promise<{ styles: string; first: string }> {
  const paths = await Promise.all(
    PARTS.map(async ({ file }) => assets.add("woff2", "font/woff2", await Bun.file(file).bytes())),
  );
  const rules = PARTS.map(
    ({ range }, part) =>
      `@font-face{font-family:Geist;font-weight:100 900;font-display:swap;src:url(${paths[part]}) format("woff2");unicode-range:${range}}`,
  );
  return { styles: rules.join(""), first: paths[0] ?? "" };
}

/** The app's icon, as SVG. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2f6f5e"/><g fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"><rect x="7.5" y="9" width="17" height="14" rx="2"/><path d="m8 10.5 8 6.5 8-6.5"/></g></svg>`;
