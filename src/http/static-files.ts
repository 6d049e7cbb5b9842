/** Static files, compressed once. Browsers keep files with a hash for a name for good. */
import { createHash } from "node:crypto";
import { acceptedEncodings } from "../api/compression.ts";
import { markStreamedResponse } from "../api/unread-answers.ts";
import { PAGE_HEADERS } from "./response-headers.ts";

/** A file to serve. All responses share the memory of its content. */
export interface File {
  type: string;
  content: Blob;
  /** Undefined for formats that are compressed already. */
  gzip: Blob | undefined;
}

export function makeStaticFile(type: string, content: string | Uint8Array<ArrayBuffer>): File {
  if (typeof content !== "string") return { type, content: new Blob([content]), gzip: undefined };
  return { type, content: new Blob([content]), gzip: new Blob([Bun.gzipSync(content, { level: 9 })]) };
}

/** The response with a file. `headers`: beside those of a page. */
export function fileResponse(
  request: Request,
  { type, content, gzip }: File,
  headers: Readonly<Record<string, string>>,
  cacheControl = "no-cache",
): Response {
  const gzips = gzip !== undefined && acceptedEncodings(request, ["gzip", "identity"])[0] === "gzip";
  return markStreamedResponse(
    new Response(gzips ? gzip : content, {
      headers: {
        ...headers,
        ...PAGE_HEADERS,
        "content-type": type,
        "cache-control": cacheControl,
        vary: "accept-encoding",
        ...(gzips && { "content-encoding": "gzip" }),
      },
    }),
  );
}

export type Assets = ReturnType<typeof openAssets>;

/** Files below `prefix`, named by their content. */
export function openAssets(prefix: string) {
  const files = new Map<string, File>();
  function put(name: string, file: File): string {
    files.set(prefix + name, file);
    return prefix + name;
  }
  return {
    /** Adds a file named by its hash. Returns its path. */
    add(ending: string, type: string, content: string | Uint8Array<ArrayBuffer>): string {
      const hash = createHash("sha256").update(content).digest("base64url").slice(0, 12);
      return put(`${hash}.${ending}`, makeStaticFile(type, content));
    },
    /** Adds a file whose name has its hash already. */
    addNamed: (name: string, type: string, content: string): string => put(name, makeStaticFile(type, content)),
    /** Undefined for an unknown path. */
    respond(request: Request, path: string, headers: Readonly<Record<string, string>>): Response | undefined {
      const file = files.get(path);
      return file && fileResponse(request, file, headers, "public, max-age=31536000, immutable");
    },
  };
}
