/**
 * Remote images of mail. The server fetches them when a person asks for them, so that the sender learns that the mail
 * was opened, but not by whom, from where or with which program.
 *
 * The URL of an image is signed for one person, so that a person can have the server fetch only URLs of their own mail.
 * The key lives as long as the process: after a restart, a frame has to be loaded again to show its images.
 *
 * Invariant: a response is a raster image by its first bytes, of at most 10 MB, with a content type that we choose;
 * destination.ts has checked every URL on the way to it, redirects too.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Caller } from "../access/caller.ts";
import { urlQuery } from "../api/request.ts";
import { MOST_REQUESTS } from "../base/descriptors.ts";
import { memoryLimit } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import { createShares } from "../base/shares.ts";
import { type HttpClientParts, openHttpClient } from "../net/http-client.ts";

/** Path of the image proxy. */
const IMAGES_PATH = "/app/images";

/** Bytes; larger images are refused. */
export const LARGEST_IMAGE = 10_000_000;
/** For one image, with its redirects and DNS. */
export const IMAGE_TIMEOUT_MS = 10_000;
const MOST_REDIRECTS = 3;
/** Images at once for one person, so that a slow image server delays nobody else. */
const AT_ONCE = 6;
/** Images at once for all, which bounds descriptors; and memory: those at once take a sixteenth of it, four images at least. */
const atOnceIn = (memory: number): number =>
  Math.max(4, Math.min(MOST_REQUESTS.images, Math.floor(memory / 16 / LARGEST_IMAGE)));
/** How long a request waits for its turn, ms. */
const WAIT_MS = 120_000;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Bytes that detectRasterType reads. */
export const SIGNATURE_BYTES = 32;
/** First bytes, in hexadecimal. */
const SIGNATURES: readonly [mediaType: string, begins: RegExp][] = [
  ["image/png", /^89504e470d0a1a0a/],
  ["image/jpeg", /^ffd8ff/],
  ["image/gif", /^474946383[79]61/],
  ["image/webp", /^52494646.{8}57454250/],
  ["image/avif", /^.{8}66747970617669(?:66|73)/],
  ["image/bmp", /^424d.{8}0{8}.{4}0000(?:0c|28|34|38|40|6c|7c)000000/],
];

interface Image {
  bytes: Uint8Array<ArrayBuffer>;
  contentType: string;
}

/** Why there is no image. Clients do not see the reason. */
class NoImage extends Error {}

/** The media type of a raster image, by its first bytes; undefined for other content, such as SVG. */
export function detectRasterType(bytes: Uint8Array): string | undefined {
  const start = bytes.subarray(0, SIGNATURE_BYTES).toHex();
  return SIGNATURES.find(([, begins]) => begins.test(start))?.[0];
}

/** Headers of mail content that is served as a file: it runs no script, and no other site can embed it. */
export const CONTENT_HEADERS = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'self'; sandbox",
  "x-content-type-options": "nosniff",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
};

export type ImageProxy = ReturnType<typeof openImageProxy>;

/** `allow`: excepted networks, as readDestination takes them. */
export function openImageProxy({
  runtime,
  allow = () => [],
  mostAtOnce = atOnceIn(memoryLimit()),
}: {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "randomBytes">;
  allow?: HttpClientParts["allow"];
  mostAtOnce?: number;
}) {
  const client = openHttpClient({ runtime, allow });
  const key = runtime.randomBytes(32);
  const underWay = createShares({ most: mostAtOnce, mostOfPerson: AT_ONCE, runtime });

  const signImageUrl = ({ userId }: Caller, url: string): Buffer =>
    createHmac("sha256", key).update(`${userId}\n${url}`).digest();

  async function fetchImage(url: string, signal: AbortSignal): Promise<Image> {
    let current = url;
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const headers = { accept: "image/*" };
      const response = await client.send({ method: "GET", url: current, headers }, signal);
      const location = response.headers.get("location");
      if (!REDIRECTS.has(response.status) || location === null) return readImage(response);
      await response.body?.cancel();
      current = new URL(location, current).href;
    }
    throw new NoImage("too many redirects");
  }

  return {
    /** Returns this server's URL of the image at `url`, for that caller. */
    urlFor(caller: Caller, url: string): string {
      const query = new URLSearchParams({ url, signature: signImageUrl(caller, url).toString("base64url") });
      return `${IMAGES_PATH}?${query}`;
    },
    /** Responds to a request for such a URL. Never rejects. */
    async respond(request: Request, caller: Caller): Promise<Response> {
      const query = new URLSearchParams(urlQuery(request.url));
      const url = query.get("url") ?? "";
      const signature = Buffer.from(query.get("signature") ?? "", "base64url");
      const expected = signImageUrl(caller, url);
      if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return refuse(403);
      const place = await underWay.wait(caller, 1, WAIT_MS, request.signal);
      if (!place) return refuse(502);
      try {
        const { bytes, contentType } = await client.within(IMAGE_TIMEOUT_MS, (signal) =>
          fetchImage(url, AbortSignal.any([signal, request.signal])),
        );
        const headers = { ...CONTENT_HEADERS, "content-type": contentType, "cache-control": "private, max-age=86400" };
        return new Response(bytes, { headers });
      } catch {
        return refuse(502);
      } finally {
        place.release();
      }
    },
    /** Ends requests under way. */
    close: client.close,
  };
}

/** Browsers then show the image's alternative text. */
const refuse = (status: number): Response =>
  new Response(null, { status, headers: { ...CONTENT_HEADERS, "cache-control": "no-store" } });

/** @throws NoImage when the response is no image; the connection is then closed */
async function readImage(response: Response): Promise<Image> {
  const reader = response.body?.getReader();
  try {
    if (response.status !== 200) throw new NoImage(`answered ${response.status}`);
    if (Number(response.headers.get("content-length") ?? 0) > LARGEST_IMAGE) throw new NoImage("too large");
    const chunks: Uint8Array[] = [];
    let size = 0;
    let isKnown = false;
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
      size += read.value.length;
      if (size > LARGEST_IMAGE) throw new NoImage("too large");
      chunks.push(read.value);
      // Other content is not read to its end.
      if (!isKnown && size >= SIGNATURE_BYTES) {
        if (detectRasterType(Buffer.concat(chunks)) === undefined) throw new NoImage("no raster image");
        isKnown = true;
      }
    }
    const bytes = Buffer.concat(chunks);
    const contentType = detectRasterType(bytes);
    if (contentType === undefined) throw new NoImage("no raster image");
    return { bytes, contentType };
  } catch (error) {
    await reader?.cancel().catch(() => {});
    throw error;
  }
}
