/**
 * A real S3 server in a child process on a free port: moto's, with everything in memory, or Versity's gateway, which others
 * run before their disks and which is as strict as a real place about signatures, lengths and Content-MD5. Each test has a
 * bucket of its own, and a proxy before the server that can be told to misbehave.
 */
import { describe } from "bun:test";
import { join } from "node:path";
import { AwsClient } from "aws4fetch";
import type { S3Location } from "../../../src/net/s3.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { isListening, takePort } from "../port.ts";
import { until } from "../until.ts";

const inGo = (name: string): string | null =>
  Bun.which(name) ?? Bun.which(join(process.env.GOBIN ?? join(process.env.HOME ?? "", "go/bin"), name));

const PROGRAMS = { moto: Bun.which("moto_server"), versitygw: inGo("versitygw") };
export type S3Program = keyof typeof PROGRAMS;
/** With which tests run that name none. */
const USUAL = process.env.MAILROOM_TEST_S3 === "versitygw" ? "versitygw" : "moto";

/** The reason why its tests are skipped, or undefined. */
export const without = (program: S3Program): string | undefined =>
  PROGRAMS[program] === null ? `${program} is not installed (.ci/run does, with Python or Go)` : undefined;
export const noS3 = without(USUAL);

/** Describes tests once with each server. */
export function describeS3(what: string, tests: (program: S3Program) => void): void {
  for (const program of ["moto", "versitygw"] as const) {
    const missing = without(program);
    describe.skipIf(missing !== undefined)(`${what} (${missing ?? program})`, () => tests(program));
  }
}

const CREDENTIALS = { accessKeyId: "mailroom-test", secretAccessKey: "secret-of-the-test" };

const children: Bun.Subprocess[] = [];
const shared = new Map<S3Program, Promise<string>>();
atEndOfFile(async () => {
  shared.clear();
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.splice(0).map((child) => child.exited));
});

async function startProgram(program: S3Program): Promise<string> {
  const executable = PROGRAMS[program];
  if (executable === null) throw new Error(without(program));
  const port = await takePort();
  const address = `127.0.0.1:${port}`;
  const command = {
    moto: [executable, "-H", "127.0.0.1", "-p", String(port)],
    // What it knows of its objects is kept beside them, since not every file system has room for it at a file.
    versitygw: [executable, "--quiet", "--port", address, "posix", "--sidecar", temporaryFolder(), temporaryFolder()],
  };
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: temporaryFolder(),
    ROOT_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    ROOT_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  };
  children.push(Bun.spawn(command[program], { env, stdio: ["ignore", "ignore", "ignore"] }));
  await until(() => isListening(port));
  return `http://${address}`;
}

let buckets = 0;

export interface S3 {
  /** A place in a new bucket. */
  location: S3Location;
  /** The `location` as MAILROOM_BLOBS and MAILROOM_REPLICA take it; they need `credentials` beside it. */
  url: string;
  credentials: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string };
  /** URL of the server itself, past the proxy. */
  endpoint: string;
  /** Client that reads and changes the same objects past the proxy. */
  direct: Bun.S3Client;
  /**
   * Sets what the proxy does to each request from now on: the rule's result is the response; undefined hands the request on.
   * `forward` hands it on and returns the response, which may then be changed.
   */
  interfere(rule: Interference | undefined): void;
  /** The requests so far, as `GET /bucket/key`. */
  asked: string[];
}

export type Interference = (
  request: Request,
  forward: () => Promise<Response>,
) => Response | Promise<Response> | undefined;

/**
 * Makes a bucket on the server of this process, which it starts when it is the first. `beside`: the way of another machine to
 * the same bucket instead, with a proxy of its own. `hostname`: where the proxy listens.
 */
export async function startS3(
  program: S3Program = USUAL,
  { beside, hostname = "127.0.0.1" }: { beside?: S3; hostname?: string } = {},
): Promise<S3> {
  const server = shared.get(program) ?? startProgram(program);
  shared.set(program, server);
  const endpoint = await server;
  const bucket = beside?.location.bucket ?? `mailroom-${process.pid}-${buckets++}`;
  let rule: Interference | undefined;
  const asked: string[] = [];
  const proxy = Bun.serve({
    hostname,
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      asked.push(`${request.method} ${pathname}`);
      // Requests are signed with the host that they name, which the server reads from this header.
      const forward = () =>
        fetch(endpoint + pathname + search, {
          method: request.method,
          headers: request.headers,
          body: request.body,
          redirect: "manual",
          decompress: false,
        });
      return (await rule?.(request, forward)) ?? forward();
    },
  });
  proxy.unref();
  const location = {
    ...{ bucket, prefix: "team/", endpoint: `http://${hostname}:${proxy.port}`, region: "us-east-1" },
    ...CREDENTIALS,
  };
  const direct = new Bun.S3Client({ bucket, endpoint, region: location.region, ...CREDENTIALS });
  if (!beside) await createBucket(endpoint, bucket, location.region);
  return {
    location,
    url: `s3://${bucket}/team?endpoint=${location.endpoint}&region=${location.region}`,
    credentials: {
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    },
    endpoint,
    direct,
    asked,
    interfere(next) {
      rule = next;
    },
  };
}

/** A server that takes no notice of a condition of writes. */
export const ignoring =
  ({ direct }: S3, condition: string): Interference =>
  (request) => {
    if (!request.headers.has(condition)) return undefined;
    const key = new URL(request.url).pathname.split("/").slice(2).join("/");
    const write = async (): Promise<Response> => {
      await direct.write(key, await request.text());
      return new Response(null, { headers: { etag: (await direct.stat(key)).etag } });
    };
    return write();
  };

async function createBucket(endpoint: string, bucket: string, region: string): Promise<void> {
  const client = new AwsClient({ ...CREDENTIALS, service: "s3", region, retries: 0 });
  const made = await client.fetch(`${endpoint}/${bucket}`, { method: "PUT" });
  if (!made.ok) throw new Error(`the bucket is refused: ${made.status} ${await made.text()}`);
}
