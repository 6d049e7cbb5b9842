/** Files for browsers, compressed once. Those that are named by their content are kept by browsers for good. */
import { createHash } from "node:crypto";
import { PAGE_HEADERS } from "./headers.ts";

export interface File {
  type: string;
  bytes: Uint8Array<ArrayBuffer>;
  /** Undefined for what is compressed by itself. */
  gzip: Uint8Array<ArrayBuffer> | undefined;
}

export function fileOf(type: string, content: string | Uint8Array<ArrayBuffer>): File {
  if (typeof content !== "string") return { type, bytes: content, gzip: undefined };
  const bytes = new TextEncoder().encode(content);
  return { type, bytes, gzip: Bun.gzipSync(bytes, { level: 9 }) };
}

/** `headers` go on it beside those of a page. */
export function answerFile(
  request: Request,
  { type, bytes, gzip }: File,
  headers: Readonly<Record<string, string>>,
  cacheControl = "no-cache",
): Response {
  const gzips = gzip !== undefined && /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");
  return new Response(gzips ? gzip : bytes, {
    headers: {
      ...headers,
      ...PAGE_HEADERS,
      "content-type": type,
      "cache-control": cacheControl,
      vary: "accept-encoding",
      ...(gzips && { "content-encoding": "gzip" }),
    },
  });
}

export interface Assets {
  /** Returns its path. */
  add(ending: string, type: string, content: string | Uint8Array<ArrayBuffer>): string;
  /** The same, of what has a name that its content made. */
  addNamed(name: string, type: string, content: string): string;
  /** Undefined for a path that none of them has. */
  answer(request: Request, path: string, headers: Readonly<Record<string, string>>): Response | undefined;
}

/** Files below `prefix`, named by their content. */
export function openAssets(prefix: string): Assets {
  const files = new Map<string, File>();
  function put(name: string, file: File): string {
    files.set(prefix + name, file);
    return prefix + name;
  }
  return {
    add(ending, type, content) {
      const hash = createHash("sha256").update(content).digest("base64url").slice(0, 12);
      return put(`${hash}.${ending}`, fileOf(type, content));
    },
    addNamed: (name, type, content) => put(name, fileOf(type, content)),
    answer(request, path, headers) {
      const file = files.get(path);
      return file && answerFile(request, file, headers, "public, max-age=31536000, immutable");
    },
  };
}
