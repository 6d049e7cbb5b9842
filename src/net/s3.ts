/** Signs requests to S3 servers, and reads and writes few and small objects there; writes may be conditional. */
import { AwsClient } from "aws4fetch";
import type { Runtime } from "../base/runtime.ts";
import { parseTime } from "../base/time.ts";
import { readResponseText } from "./answer.ts";

/** A place in an S3 bucket, with the credentials for it. */
export interface S3Location {
  readonly bucket: string;
  /** Keys begin with it; it is empty or ends with a slash. */
  readonly prefix: string;
  /** Origin of the server, without a trailing slash. The bucket is the first part of the path. */
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** Names a place, without secrets. */
export const formatS3Location = ({ endpoint, bucket, prefix }: S3Location): string => `${endpoint}/${bucket}/${prefix}`;

/** The server refused a request, or none answered. */
export class S3Error extends Error {
  override readonly name = "S3Error";
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;

  constructor(message: string, { status, cause }: { status?: number; cause?: unknown }) {
    super(message, { cause });
    this.status = status;
  }
}

/** A write that happens only if there is no such object (`absent`), or if it has this ETag. */
export type WriteCondition = { absent: true } | { etag: string };

export interface S3Listed {
  key: string;
  size: number;
  /** Epoch ms, by the server's clock; NaN where it says none. */
  modifiedAt: number;
}

export type S3Objects = ReturnType<typeof openS3>;

/** Signs requests to a location (AWS Signature Version 4), without their bodies. */
export const createS3Signer = ({ region, accessKeyId, secretAccessKey }: S3Location) =>
  new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });

/** Bytes: a list of a thousand keys of a kilobyte each, escaped. */
const LARGEST_ANSWER = 8 * 1024 * 1024;
/** Objects of one answer to a list: more are not asked for. */
const MOST_LISTED = 1_000;
/** Keys that Mailroom and Litestream give, below the prefix. */
const OWN_KEY = /^[\w-][\w.-]*(?:\/[\w-][\w.-]*)*$/;
/** Time limit of a request, ms. */
const LIMIT_MS = 8_000;

/** The objects below the prefix of a location; keys are without the prefix. All functions throw S3Error. */
export function openS3(
  location: S3Location,
  { fetch, setTimer }: Pick<Runtime, "fetch" | "setTimer">,
  limitMs = LIMIT_MS,
) {
  const { bucket, prefix, endpoint } = location;
  const signer = createS3Signer(location);
  const root = `${endpoint}/${bucket}`;

  /**
   * Makes a request, and reads its answer with one of the statuses; 404 only where it says that there is no such object, since
   * servers say it of buckets and keys, too. @throws S3Error for any other
   */
  async function ask(method: string, path: string, expected: number[], init: RequestInit = {}) {
    const controller = new AbortController();
    const cancel = setTimer(() => controller.abort(new Error(`no answer within ${limitMs / 1_000} s`)), limitMs);
    let status: number;
    let etag: string;
    let text: string;
    try {
      const request = await signer.sign(`${root}${path}`, { ...init, method });
      const response = await fetch(request, { signal: controller.signal, redirect: "manual" });
      status = response.status;
      etag = response.headers.get("etag") ?? "";
      text = await readResponseText(response, LARGEST_ANSWER);
    } catch (error) {
      const cause = controller.signal.aborted ? controller.signal.reason : error;
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new S3Error(`the S3 server ${endpoint} cannot be used: ${reason}`, { cause });
    } finally {
      cancel();
    }
    const code = /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1];
    if (expected.includes(status) && (status !== 404 || code === "NoSuchKey")) return { status, etag, text };
    const what = code === undefined ? String(status) : `${status} ${code}`;
    throw new S3Error(`the S3 server ${endpoint} answered ${what} to ${method} ${bucket}/${prefix}`, { status });
  }

  const objectPath = (key: string): string => `/${prefix}${key}`;
  return {
    /** Undefined if there is none. */
    async get(key: string): Promise<{ text: string; etag: string } | undefined> {
      const { status, etag, text } = await ask("GET", objectPath(key), [200, 404]);
      return status === 200 ? { text, etag } : undefined;
    },
    /** Writes it, and gives its ETag; undefined, and nothing written, if the condition is not met. */
    async put(key: string, text: string, condition?: WriteCondition): Promise<string | undefined> {
      const headers = {
        "content-type": "application/json",
        ...(condition && ("absent" in condition ? { "if-none-match": "*" } : { "if-match": condition.etag })),
      };
      // 404: there is no object that could match.
      const unmet = condition ? ("absent" in condition ? [412] : [412, 404]) : [];
      const { status, etag } = await ask("PUT", objectPath(key), [200, ...unmet], { body: text, headers });
      return status === 200 ? etag : undefined;
    },
    /** Also fine if there is none. */
    async remove(key: string): Promise<void> {
      await ask("DELETE", objectPath(key), [200, 204, 404]);
    },
    /**
     * Objects among the first thousand whose keys begin with `below` and come after another, in order; and after what there are
     * more. Keys that are not ours are left out: as a path, one with `..` in it would lead to another object, or bucket.
     * @throws S3Error also for more that do not go on, of which there is no end
     */
    async list(below: string, after = ""): Promise<{ objects: S3Listed[]; next: string | undefined }> {
      const query = new URLSearchParams({ "list-type": "2", prefix: prefix + below, "start-after": prefix + after });
      const { text } = await ask("GET", `/?${query}`, [200]);
      if (!text.includes("</ListBucketResult>"))
        throw new S3Error(`the S3 server ${endpoint} answered no whole list`, {});
      const valueIn = (part: string, name: string): string =>
        new RegExp(`<${name}>([^<]*)</${name}>`).exec(part)?.[1] ?? "";
      const contents = text.split("<Contents>", 1 + MOST_LISTED).slice(1);
      const listed = contents.map((part) => ({
        key: valueIn(part, "Key").slice(prefix.length),
        size: Number(valueIn(part, "Size")),
        modifiedAt: parseTime(valueIn(part, "LastModified")) ?? Number.NaN,
      }));
      const last = listed.at(-1)?.key ?? "";
      const next = text.includes("<IsTruncated>true</IsTruncated>") ? last : undefined;
      if (next !== undefined && Buffer.compare(Buffer.from(last), Buffer.from(after)) <= 0) {
        throw new S3Error(`the S3 server ${endpoint} answered a list without end`, {});
      }
      return { objects: listed.filter(({ key }) => key.startsWith(below) && OWN_KEY.test(key)), next };
    },
    /** The names of the folders directly below one, which ends with a slash; at most a thousand. */
    async folders(below: string): Promise<string[]> {
      const query = new URLSearchParams({ "list-type": "2", delimiter: "/", prefix: prefix + below });
      const { text } = await ask("GET", `/?${query}`, [200]);
      const found = text.matchAll(/<CommonPrefixes>\s*<Prefix>([^<]*)\/<\/Prefix>/g);
      return [...found].map(([, path = ""]) => path.slice(prefix.length + below.length));
    },
  };
}
