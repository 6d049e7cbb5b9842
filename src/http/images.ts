/**
 * Remote images of mail, fetched by the server once a person asks for them: whoever wrote the mail learns that it was
 * opened, and not by whom, from where or with what.
 *
 * The address of an image is signed for one person, so that nobody has the server fetch what no mail of theirs names.
 * The key lives as long as the process: a frame that was made before a restart is made anew to show its images.
 *
 * Invariant: what is answered is a raster image by its first bytes, at most 10 MB of it, under a content type of ours;
 * every place on the way to it, redirects too, was judged by destination.ts.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Caller } from "../access/caller.ts";
import { queryOf } from "../api/target.ts";
import type { Runtime } from "../base/runtime.ts";
import { type HttpClientParts, openHttpClient } from "../net/http-client.ts";

/** Where images of mail are asked for. */
const IMAGES_PATH = "/app/images";

/** Bytes of an image; more is refused. */
export const LARGEST_IMAGE = 10_000_000;
/** Of one image, its redirects and the questions to DNS included. */
export const IMAGE_TIMEOUT_MS = 10_000;
const MOST_REDIRECTS = 3;
/** One person's at a time: a slow server of images delays nobody else. */
const AT_ONCE = 6;
const MOST_WAITING = 500;
/** Of everybody together: what they take of memory and descriptors. */
const AT_ONCE_IN_ALL = 20;
const MOST_WAITING_IN_ALL = 2_000;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** As much of a file as rasterTypeOf looks at. */
export const SIGNATURE_BYTES = 32;
/** In hexadecimal. */
const SIGNATURES: readonly [mediaType: string, begins: RegExp][] = [
  ["image/png", /^89504e470d0a1a0a/],
  ["image/jpeg", /^ffd8ff/],
  ["image/gif", /^474946383[79]61/],
  ["image/webp", /^52494646.{8}57454250/],
  ["image/avif", /^.{8}66747970617669(?:66|73)/],
  ["image/bmp", /^424d.{8}0{8}.{4}0000(?:0c|28|34|38|40|6c|7c)000000/],
];

export interface ImageProxy {
  /** The address under which this server gives the caller the image at `url`. */
  addressOf(caller: Caller, url: string): string;
  /** Answers a request for such an address. Never rejects. */
  answer(request: Request, caller: Caller): Promise<Response>;
  /** Ends what is under way. */
  close(): void;
}

export interface ImageProxyParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "randomBytes">;
  /** Excepted networks, as readDestination takes them. */
  allow?: HttpClientParts["allow"];
}

interface Image {
  bytes: Uint8Array<ArrayBuffer>;
  contentType: string;
}

/** Why there is no image; nobody is told more than that. */
class NoImage extends Error {}

/** The media type of a raster image, by its first bytes; undefined for anything else, SVG among it. */
export function rasterTypeOf(bytes: Uint8Array): string | undefined {
  const start = bytes.subarray(0, SIGNATURE_BYTES).toHex();
  return SIGNATURES.find(([, begins]) => begins.test(start))?.[0];
}

/** Headers of everything that came by mail and is shown as a file of its own: it stays where it is and runs nothing. */
export const CONTENT_HEADERS = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'self'; sandbox",
  "x-content-type-options": "nosniff",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
};

export function openImageProxy({ runtime, allow = () => [] }: ImageProxyParts): ImageProxy {
  const client = openHttpClient({ runtime, allow });
  const key = runtime.randomBytes(32);
  const inLane = createLanes(AT_ONCE, MOST_WAITING);
  const inLaneOfAll = createLanes(AT_ONCE_IN_ALL, MOST_WAITING_IN_ALL);

  const signatureOf = ({ userId }: Caller, url: string): Buffer =>
    createHmac("sha256", key).update(`${userId}\n${url}`).digest();

  async function fetchImage(url: string, signal: AbortSignal): Promise<Image> {
    let place = url;
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const headers = { accept: "image/*" };
      const response = await client.send({ method: "GET", url: place, headers }, signal);
      const location = response.headers.get("location");
      if (!REDIRECTS.has(response.status) || location === null) return readImage(response);
      await response.body?.cancel();
      place = new URL(location, place).href;
    }
    throw new NoImage("too many redirects");
  }

  return {
    addressOf(caller, url) {
      const query = new URLSearchParams({ url, signature: signatureOf(caller, url).toString("base64url") });
      return `${IMAGES_PATH}?${query}`;
    },
    async answer(request, caller) {
      const query = new URLSearchParams(queryOf(request.url));
      const url = query.get("url") ?? "";
      const signature = Buffer.from(query.get("signature") ?? "", "base64url");
      const expected = signatureOf(caller, url);
      if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return refuse(403);
      try {
        const { bytes, contentType } = await inLane(caller.userId, () =>
          inLaneOfAll("all", () => {
            if (request.signal.aborted) throw new NoImage("nobody waits for it any more");
            return client.within(IMAGE_TIMEOUT_MS, (signal) =>
              fetchImage(url, AbortSignal.any([signal, request.signal])),
            );
          }),
        );
        const headers = { ...CONTENT_HEADERS, "content-type": contentType, "cache-control": "private, max-age=86400" };
        return new Response(bytes, { headers });
      } catch {
        return refuse(502);
      }
    },
    close: client.close,
  };
}

/** A browser shows the image's alternative text in its stead. */
const refuse = (status: number): Response =>
  new Response(null, { status, headers: { ...CONTENT_HEADERS, "cache-control": "no-store" } });

/** @throws NoImage when the answer is none; its connection is closed then */
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
      // Anything else is not read to its end.
      if (!isKnown && size >= SIGNATURE_BYTES) {
        if (rasterTypeOf(Buffer.concat(chunks)) === undefined) throw new NoImage("no raster image");
        isKnown = true;
      }
    }
    const bytes = Buffer.concat(chunks);
    const contentType = rasterTypeOf(bytes);
    if (contentType === undefined) throw new NoImage("no raster image");
    return { bytes, contentType };
  } catch (error) {
    await reader?.cancel().catch(() => {});
    throw error;
  }
}

/* Bounded work: so much at once for each key, the rest in turn, and no more waiting than somebody may wait for. */

/** Does `work` when it is its turn. @throws when too much waits for the key already; whatever `work` throws */
export type InLane = <T>(key: string, work: () => Promise<T>) => Promise<T>;

function createLanes(width: number, mostWaiting: number): InLane {
  const lanes = new Map<string, { running: number; waiting: (() => void)[] }>();
  return async (key, work) => {
    const lane = lanes.get(key) ?? { running: 0, waiting: [] };
    lanes.set(key, lane);
    if (lane.running < width) lane.running++;
    else if (lane.waiting.length >= mostWaiting) throw new Error("too much waits already");
    // Who ends hands its place over.
    else await new Promise<void>((resolve) => lane.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.shift();
      if (next) next();
      else if (--lane.running === 0) lanes.delete(key);
    }
  };
}
