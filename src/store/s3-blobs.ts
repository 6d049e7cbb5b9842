/**
 * Blobs as objects of a bucket: `PREFIXblobs/ab/cdef…`, as in the data folder.
 *
 * Invariants: an object that `put` has stored is verified, by the MD5 that the server gives as its ETag, or by reading it back
 * (RFC 9110 §8.8.3 lets an ETag be anything, and a bucket that encrypts gives another). A file that `get` leaves has the hash
 * of its name. No request lasts for ever, and a server that fails is spared for a moment: callers learn of it at once.
 */
import { open, unlink } from "node:fs/promises";
import { type AppError, unavailable } from "../base/errors.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { readResponseText, SHORT_ANSWER } from "../net/answer.ts";
import { createS3Signer, formatS3Location, openS3, S3Error, type S3Location } from "../net/s3.ts";
import { DamagedBlob, forEachFilePiece } from "./sound.ts";

/**
 * Times of all attempts of one operation, ms; a sender of mail waits for it. More for each byte that is sent or has come, at
 * a slow line's rate: no length that the server merely announces counts.
 */
const PATIENCE_MS = 30_000;
const ATTEMPT_MS = 10_000;
const SLOWEST_BYTES_PER_MS = 500;
/** Pauses before each further attempt. */
const PAUSES_MS = [250, 1_000, 4_000];
/** How long nothing is tried after an operation that failed. */
const REST_MS = 5_000;
/** Operations at once, each way. */
const AT_ONCE = 8;
/** Twice the largest message that may come. */
const LARGEST_BLOB = 2 * 1024 ** 3;
const NAME = /^[0-9a-f]{64}$/;
const FOLDER = "blobs/";

const METHODS = ["PUT", "GET", "HEAD", "DELETE", "LIST"] as const;
export type S3Method = (typeof METHODS)[number];

export interface S3Object {
  name: string;
  size: number;
  /** Epoch ms, by the server's clock. */
  modifiedAt: number;
}

/** A request: `seconds` until its answer was read. */
export interface S3Request {
  method: S3Method;
  ok: boolean;
  seconds: number;
  /** Bytes of blobs that were sent or received. */
  bytes: number;
}

/** An answer that says no, with the code of the error in it. */
class Refused extends Error {
  readonly status: number;
  readonly code: string;
  constructor(method: S3Method, status: number, code: string) {
    super(`the S3 server answered ${status}${code === "" ? "" : ` ${code}`} to ${method}`);
    this.status = status;
    this.code = code;
  }
}

/** An object is missing after it was stored. Other objects may be well, so the server does not count as failing. */
class NotStored extends Error {}

/** Calls of the system that fail for a reason of this machine, such as a full disk. */
const HERE = new Set(["open", "write", "fsync"]);
const isOurs = (error: unknown): boolean => HERE.has((error as NodeJS.ErrnoException).syscall ?? "");

export type S3Blobs = ReturnType<typeof openS3Blobs>;

async function hashFile(path: string): Promise<{ sha256: string; md5: Buffer; size: number }> {
  const [sha256, md5] = [new Bun.CryptoHasher("sha256"), new Bun.CryptoHasher("md5")];
  let size = 0;
  await forEachFilePiece(path, (piece) => {
    sha256.update(piece);
    md5.update(piece);
    size += piece.length;
  });
  return { sha256: sha256.digest("hex"), md5: md5.digest(), size };
}

export function openS3Blobs(location: S3Location, runtime: Pick<Runtime, "now" | "setTimer" | "fetch">) {
  const { bucket, endpoint } = location;
  const signer = createS3Signer(location);
  const lists = openS3(location, runtime, ATTEMPT_MS);
  const folder = location.prefix + FOLDER;
  const blobObjectKey = (name: string): string => `${folder}${name.slice(0, 2)}/${name.slice(2)}`;
  const listeners = new Set<(request: S3Request) => void>();

  /* The state of the server: after a failure it rests, and then one operation at a time finds out whether it works. */

  let failure: { at: number; reason: string } | undefined;
  let probing = false;

  const createUnavailable = (reason: unknown): AppError =>
    unavailable(
      "The store of attachments is briefly unavailable; try again",
      new Error(reason instanceof Error ? reason.message : String(reason)),
    );

  /** @throws AppError server_error 503 while the server rests, or is found out about */
  function requireHope(): void {
    if (failure && (probing || Math.abs(runtime.now() - failure.at) < REST_MS)) throw createUnavailable(failure.reason);
  }

  type Turns = ReturnType<typeof createTurns>;

  async function guarded<T>(work: () => Promise<T>, inTurn: Turns = (next) => next()): Promise<T> {
    requireHope();
    const isProbe = failure !== undefined;
    probing ||= isProbe;
    try {
      const result = await inTurn(() => {
        // It may have failed while this one waited.
        if (!isProbe) requireHope();
        return work();
      });
      failure = undefined;
      return result;
    } finally {
      if (isProbe) probing = false;
    }
  }

  function createTurns() {
    let free = AT_ONCE;
    const waiting: (() => void)[] = [];
    return async <T>(work: () => Promise<T>): Promise<T> => {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else free++;
      }
    };
  }
  const turns = { in: createTurns(), out: createTurns() };

  /* Requests. */

  function isWorthAnother(error: unknown): boolean {
    const status = error instanceof Refused || error instanceof S3Error ? error.status : undefined;
    return status === undefined || status >= 500 || status === 429 || status === 408;
  }

  /**
   * Runs `attempt` until it succeeds. `size`: the bytes that it sends; it calls `came` with the number of those that come.
   * @throws DamagedBlob; AppError server_error 503; errors of the file system
   */
  async function patiently<T>(
    attempt: (signal: AbortSignal, came: (bytes: number) => void) => Promise<T>,
    size = 0,
  ): Promise<T> {
    const until = runtime.now() + PATIENCE_MS + size / SLOWEST_BYTES_PER_MS;
    for (let n = 0; ; n++) {
      const controller = new AbortController();
      let cancel = (): void => {};
      let earned = ATTEMPT_MS + size / SLOWEST_BYTES_PER_MS;
      const came = (bytes: number): void => {
        earned += bytes / SLOWEST_BYTES_PER_MS;
      };
      const goOn = (spent: number): void => {
        const until = earned;
        if (until > spent) cancel = runtime.setTimer(() => goOn(until), until - spent);
        else controller.abort(new Error(`it took more than ${Math.round(spent / 1000)} s`));
      };
      goOn(0);
      try {
        return await attempt(controller.signal, came);
      } catch (error) {
        if (isOurs(error)) throw error;
        const cause = controller.signal.aborted ? controller.signal.reason : error;
        // Bytes that were changed on the way, perhaps, come again at once.
        const wait = cause instanceof DamagedBlob ? [0][n] : PAUSES_MS[n];
        if (wait === undefined || !isWorthAnother(cause) || runtime.now() + wait >= until) {
          if (cause instanceof DamagedBlob) throw cause;
          const refusal = createUnavailable(cause);
          if (!(cause instanceof NotStored)) failure = { at: runtime.now(), reason: (refusal.cause as Error).message };
          throw refusal;
        }
        if (wait > 0) await pause(runtime, wait);
      } finally {
        cancel();
      }
    }
  }

  function observe(method: S3Method, startedAt: number, ok: boolean, bytes = 0): void {
    const seconds = Math.max(0, runtime.now() - startedAt) / 1_000;
    for (const listener of listeners) listener({ method, ok, seconds, bytes });
  }

  /**
   * Makes a request. `read` takes the answer, among them 404 where it says that there is no such object, and returns its
   * result and the bytes that it read. Servers say 404 of buckets and keys, too, and so does whatever stands before them.
   * @throws Refused for any other answer
   */
  async function ask<T>(
    method: Exclude<S3Method, "LIST">,
    key: string,
    init: RequestInit,
    read: (response: Response) => Promise<{ result: T; bytes?: number }>,
  ): Promise<T> {
    const startedAt = runtime.now();
    let ok = false;
    let bytes = 0;
    try {
      // The body stays aside: in a Request it would be a stream without a length.
      const { headers = {}, ...rest } = init;
      const signed = await signer.sign(`${endpoint}/${bucket}/${key}`, { method, headers });
      const response = await runtime.fetch(signed.url, {
        ...rest,
        method,
        headers: signed.headers,
        redirect: "manual",
      });
      if (!response.ok) {
        const text = await readResponseText(response, SHORT_ANSWER);
        const code = /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1] ?? "";
        const isNone = method === "HEAD" || (method !== "PUT" && code === "NoSuchKey");
        if (response.status !== 404 || !isNone) throw new Refused(method, response.status, code);
      }
      const { result, bytes: content = 0 } = await read(response);
      ok = true;
      bytes = content;
      return result;
    } finally {
      observe(method, startedAt, ok, bytes);
    }
  }

  const readEtag = (response: Response): string => (response.headers.get("etag") ?? "").replaceAll('"', "");

  /** Reads the object to its end; undefined if there is none. */
  async function readObject(
    name: string,
    signal: AbortSignal,
    came: (bytes: number) => void,
    take: (piece: Uint8Array) => Promise<void>,
  ): Promise<number | undefined> {
    const hash = new Bun.CryptoHasher("sha256");
    const size = await ask("GET", blobObjectKey(name), { signal }, async (response) => {
      if (response.status === 404) return { result: undefined };
      if (Number(response.headers.get("content-length")) > LARGEST_BLOB) throw new DamagedBlob(name);
      let bytes = 0;
      for await (const piece of response.body ?? []) {
        hash.update(piece);
        bytes += piece.byteLength;
        came(piece.byteLength);
        if (bytes > LARGEST_BLOB) throw new DamagedBlob(name);
        await take(piece);
      }
      return { result: bytes, bytes };
    });
    if (size !== undefined && hash.digest("hex") !== name) throw new DamagedBlob(name);
    return size;
  }

  async function isStored(name: string, etag: string, md5: Buffer, signal: AbortSignal, came: (bytes: number) => void) {
    if (etag === md5.toString("hex")) return true;
    try {
      return (await readObject(name, signal, came, async () => {})) !== undefined;
    } catch (error) {
      if (error instanceof DamagedBlob) return false;
      throw error;
    }
  }

  return {
    place: formatS3Location(location),
    /** Why the last operation failed; undefined if it did not. */
    failure: (): string | undefined => failure?.reason,
    onRequest: (listener: (request: S3Request) => void): void => void listeners.add(listener),

    /** Stores a file. Returns false for a file that is not that blob. @throws AppError server_error 503 */
    async put(name: string, path: string): Promise<boolean> {
      return guarded(async () => {
        const { sha256, md5, size } = await hashFile(path);
        if (sha256 !== name) return false;
        const headers = {
          "content-md5": md5.toString("base64"),
          "content-type": "application/octet-stream",
          "content-length": String(size),
        };
        const attempt = async (signal: AbortSignal, came: (bytes: number) => void): Promise<boolean> => {
          // Over TLS, `fetch` reads a file whole, but not a stream.
          const body = Bun.file(path).stream();
          const etag = await ask("PUT", blobObjectKey(name), { signal, headers, body }, async (response) => ({
            result: readEtag(response),
            bytes: size,
          }));
          if (await isStored(name, etag, md5, signal, came)) return true;
          throw new NotStored(`${name} is not there after it was stored`);
        };
        return patiently(attempt, size);
      }, turns.out);
    },

    /**
     * Makes a file at `path` of the blob, durable but for its name; false, without a file, if there is no such object.
     * @throws DamagedBlob if the object has other bytes; AppError server_error 503; errors of the file system
     */
    async get(name: string, path: string): Promise<boolean> {
      const fetched = async (signal: AbortSignal, came: (bytes: number) => void): Promise<boolean> => {
        const file = await open(path, "w", 0o600);
        let found = false;
        try {
          const size = await readObject(name, signal, came, async (piece) => {
            await file.writeFile(piece);
          });
          if (size === undefined) return false;
          await file.sync();
          found = true;
          return true;
        } finally {
          await file.close();
          if (!found) await unlink(path).catch(() => {});
        }
      };
      return guarded(() => patiently(fetched), turns.in);
    },

    /** Reads a blob; false if there is no such object. @throws DamagedBlob; AppError server_error 503 */
    examine: (name: string): Promise<boolean> =>
      guarded(
        () => patiently(async (signal, came) => (await readObject(name, signal, came, async () => {})) !== undefined),
        turns.in,
      ),

    /** Undefined if there is none. @throws AppError server_error 503 */
    stat: (name: string): Promise<S3Object | undefined> =>
      guarded(() =>
        patiently((signal) =>
          ask("HEAD", blobObjectKey(name), { signal }, async (response) => {
            if (response.status === 404) return { result: undefined };
            const size = Number(response.headers.get("content-length"));
            const modifiedAt = Date.parse(response.headers.get("last-modified") ?? "");
            return { result: { name, size, modifiedAt } };
          }),
        ),
      ),

    /** Removes an object, if there is one. @throws AppError server_error 503 */
    remove: (name: string): Promise<void> =>
      guarded(() =>
        patiently((signal) => ask("DELETE", blobObjectKey(name), { signal }, async () => ({ result: undefined }))),
      ),

    /** Up to a thousand blobs, in order, after those before. @throws AppError server_error 503 */
    list: (from?: string): Promise<{ objects: S3Object[]; next?: string }> =>
      guarded(() =>
        patiently(async () => {
          const startedAt = runtime.now();
          let ok = false;
          try {
            const { objects: listed, next } = await lists.list(FOLDER, from);
            ok = true;
            const objects = listed.flatMap(({ key, size, modifiedAt }) => {
              const name = key.slice(FOLDER.length).replace("/", "");
              return NAME.test(name) && location.prefix + key === blobObjectKey(name)
                ? [{ name, size, modifiedAt }]
                : [];
            });
            return { objects, ...(next !== undefined && { next }) };
          } finally {
            observe("LIST", startedAt, ok);
          }
        }),
      ),

    /** A small text beside the blobs; undefined if there is none. @throws AppError server_error 503 */
    readNote: (note: string): Promise<string | undefined> =>
      guarded(() =>
        patiently((signal) =>
          ask("GET", folder + note, { signal }, async (response) => ({
            result:
              response.status === 404 ? undefined : (await readResponseText(response, SHORT_ANSWER)).slice(0, 1_000),
          })),
        ),
      ),
    /** @throws AppError server_error 503 */
    writeNote: (note: string, body: string): Promise<void> =>
      guarded(() =>
        patiently((signal) => ask("PUT", folder + note, { signal, body }, async () => ({ result: undefined }))),
      ),
    removeNote: (note: string): Promise<void> =>
      guarded(() =>
        patiently((signal) => ask("DELETE", folder + note, { signal }, async () => ({ result: undefined }))),
      ),
  };
}
