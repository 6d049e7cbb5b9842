import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isUnavailable } from "../../src/base/errors.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { openS3Blobs, type S3Request } from "../../src/store/s3-blobs.ts";
import { DamagedBlob } from "../../src/store/sound.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { describeS3, type Interference, type S3Program, startS3 } from "../harness/peers/s3.ts";

const system = systemRuntime();
/** Waits are shorter by this factor; a request that hangs is cut off after ten seconds. */
const hurriedBy = (factor: number) => ({
  now: system.now,
  fetch,
  setTimer: (wake: () => void, ms: number) => system.setTimer(wake, ms / factor),
});
const hurried = hurriedBy(20);

async function setUpIn(program: S3Program, runtime = hurried) {
  const s3 = await startS3(program);
  const blobs = openS3Blobs(s3.location, runtime);
  const folder = temporaryFolder();
  let files = 0;
  const fileOf = (text: string | Uint8Array) => {
    const path = join(folder, `${files++}`);
    writeFileSync(path, text);
    return { path, name: new Bun.CryptoHasher("sha256").update(text).digest("hex") };
  };
  const keyOf = (name: string) => `team/blobs/${name.slice(0, 2)}/${name.slice(2)}`;
  const into = () => join(folder, `${files++}`);
  /** The requests since `interfere`, by method. */
  const methods = () => s3.asked.map((line) => line.split(" ")[0]);
  const interfere = (rule: Interference | undefined) => {
    s3.asked.length = 0;
    s3.interfere(rule);
  };
  return { s3, blobs, fileOf, keyOf, into, methods, interfere };
}

const outcomeOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.catch((error) => (isUnavailable(error) ? String((error.cause as Error).message) : error));

const answer = (status: number, code: string) => () =>
  new Response(`<Error><Code>${code}</Code><Message>no</Message></Error>`, { status });

/** Makes a list one of a server whose pages have so many objects. */
const cutTo = (most: number) => async (response: Response) => {
  const [head, ...contents] = (await response.text()).split(/(?=<Contents>)/);
  const left = contents.slice(0, most).join("");
  if (contents.length <= most) return new Response(head + left);
  return new Response(`${head}${left}</ListBucketResult>`.replace("<IsTruncated>false", "<IsTruncated>true"));
};

/** Only for requests with this method. */
const on =
  (method: string, rule: Interference): Interference =>
  (request, forward) =>
    request.method === method ? rule(request, forward) : undefined;

describeS3("blobs in S3", (program) => {
  const setUp = (runtime?: typeof hurried) => setUpIn(program, runtime);

  test("are stored under their names, read back, listed and removed", async () => {
    const { s3, blobs, fileOf, keyOf, into } = await setUp();
    const large = fileOf(new Uint8Array(3_000_000).fill(7));
    const small = fileOf("small");
    const empty = fileOf("");
    for (const { name, path } of [large, small, empty]) expect(await blobs.put(name, path)).toBe(true);
    expect(await s3.direct.file(keyOf(small.name)).text()).toBe("small");

    for (const { name, path } of [large, small, empty]) {
      const copy = into();
      expect(await blobs.get(name, copy)).toBe(true);
      expect(readFileSync(copy).equals(readFileSync(path))).toBe(true);
    }
    await s3.direct.write("team/blobs/owner", "somebody");
    await s3.direct.write("team/blobs/zz/not-a-blob", "x");
    const { objects, next } = await blobs.list();
    expect(next).toBeUndefined();
    expect(objects.map(({ name, size }) => [name, size]).sort()).toEqual(
      [
        [large.name, 3_000_000],
        [small.name, 5],
        [empty.name, 0],
      ].sort(),
    );
    expect(Math.abs((objects[0]?.modifiedAt ?? 0) - Date.now())).toBeLessThan(60_000);
    expect(await blobs.stat(small.name)).toMatchObject({ size: 5 });

    await blobs.remove(small.name);
    await blobs.remove(small.name);
    expect(await blobs.stat(small.name)).toBeUndefined();
    const gone = into();
    expect(await blobs.get(small.name, gone)).toBe(false);
    expect(existsSync(gone)).toBe(false);
    expect(blobs.failure()).toBeUndefined();
  });

  test("a file that is not the blob is not stored", async () => {
    const { s3, blobs, fileOf } = await setUp();
    const { path } = fileOf("one");
    expect(await blobs.put(fileOf("other").name, path)).toBe(false);
    expect(s3.asked).toEqual([]);
  });

  test.each([
    ["503 SlowDown", answer(503, "SlowDown")],
    ["500 InternalError", answer(500, "InternalError")],
    ["429", answer(429, "")],
    ["no answer", () => new Promise<Response>(() => {})],
  ])("%s is tried again, and once it lasts the error is one that passes", async (what, failing) => {
    const { blobs, fileOf, into, methods, interfere } = await setUp(hurriedBy(what === "no answer" ? 50 : 20));
    const { name, path } = fileOf("again");
    let left = 2;
    interfere((...request) => (left-- > 0 ? (failing as Interference)(...request) : undefined));
    expect(await blobs.put(name, path)).toBe(true);
    expect(methods()).toEqual(["PUT", "PUT", "PUT"]);

    interfere(failing);
    const failed = await outcomeOf(blobs.get(name, into()));
    expect(failed).toEqual(
      expect.stringMatching(/answered (503 SlowDown|500 InternalError|429) to GET|more than 10 s/),
    );
    expect(methods()).toEqual(["GET", "GET", "GET", "GET"]);
    expect(blobs.failure()).toBe(failed as string);
  });

  test("a connection that is refused is tried again", async () => {
    const { s3, fileOf } = await setUp();
    const nowhere = openS3Blobs({ ...s3.location, endpoint: "http://127.0.0.1:9" }, hurried);
    const { name, path } = fileOf("nowhere");
    const failed = await outcomeOf(nowhere.put(name, path));
    expect(failed).toBeString();
    // A signed URL lets whoever reads the log in.
    expect(failed).not.toContain("X-Amz");
  });

  test.each([
    [403, "AccessDenied"],
    [403, "InvalidAccessKeyId"],
    [404, "NoSuchBucket"],
  ])("%d %s is not tried again, and passes", async (status, code) => {
    const { blobs, fileOf, into, methods, interfere } = await setUp();
    const { name, path } = fileOf("denied");
    interfere(answer(status, code));
    expect(await outcomeOf(blobs.put(name, path))).toBe(`the S3 server answered ${status} ${code} to PUT`);
    expect(methods()).toEqual(["PUT"]);
    interfere(undefined);
    const { now } = hurried;
    const later = openS3Blobs({ ...(await startS3(program)).location }, { ...hurried, now });
    expect(await later.get(name, into())).toBe(false);
  });

  test("after a failure the server is spared, then one operation finds out", async () => {
    const { s3, fileOf, interfere, methods } = await setUp();
    let now = Date.now();
    const blobs = openS3Blobs(s3.location, { ...hurried, now: () => now });
    const { name, path } = fileOf("spared");
    interfere(answer(403, "AccessDenied"));
    await outcomeOf(blobs.put(name, path));
    expect(await outcomeOf(blobs.put(name, path))).toContain("AccessDenied");
    expect(methods()).toEqual(["PUT"]);

    now += 5_000;
    const held = Promise.withResolvers<void>();
    interfere(async (_, forward) => {
      await held.promise;
      return forward();
    });
    const probe = blobs.put(name, path);
    expect(await outcomeOf(blobs.stat(name))).toContain("AccessDenied");
    held.resolve();
    expect(await probe).toBe(true);
    expect(await blobs.stat(name)).toBeDefined();
  });

  test("what waits for its turn does not try a server that has failed meanwhile", async () => {
    const { blobs, fileOf, s3, interfere } = await setUp();
    const files = Array.from({ length: 20 }, (_, n) => fileOf(`file ${n}`));
    interfere(answer(403, "AccessDenied"));
    const failed = await Promise.all(files.map(({ name, path }) => outcomeOf(blobs.put(name, path))));
    expect(new Set(failed)).toEqual(new Set(["the S3 server answered 403 AccessDenied to PUT"]));
    expect(s3.asked).toHaveLength(8);
  });

  test("bytes that are not the blob's never come out of it", async () => {
    const { blobs, fileOf, into, methods, interfere } = await setUp();
    const { name, path } = fileOf("true bytes of the blob");
    await blobs.put(name, path);
    const change =
      (text: (whole: string) => string, length?: number): Interference =>
      async (_, forward) => {
        const whole = await (await forward()).text();
        return new Response(text(whole), length === undefined ? {} : { headers: { "content-length": String(length) } });
      };
    for (const rule of [
      change((whole) => whole.slice(1)),
      change((whole) => whole.replace("true", "fake")),
      change(() => ""),
    ]) {
      let left = 1;
      interfere((...request) => (left-- > 0 ? rule(...request) : undefined));
      const copy = into();
      expect(await blobs.get(name, copy)).toBe(true);
      expect(readFileSync(copy, "utf8")).toBe("true bytes of the blob");
      expect(methods()).toEqual(["GET", "GET"]);
    }
    interfere(change((whole) => whole.toUpperCase()));
    const copy = into();
    for (const work of [() => blobs.get(name, copy), () => blobs.examine(name)]) {
      expect(await outcomeOf(work())).toBeInstanceOf(DamagedBlob);
    }
    expect(existsSync(copy)).toBe(false);
    // Of other objects that says nothing.
    expect(blobs.failure()).toBeUndefined();
    expect(methods()).toEqual(["GET", "GET", "GET", "GET"]);
  });

  test("an answer that ends early is tried again, and leaves no half of a file", async () => {
    const { s3, into } = await setUp();
    let asked = 0;
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          asked++;
          socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        },
      },
    });
    try {
      const cutting = openS3Blobs({ ...s3.location, endpoint: `http://127.0.0.1:${server.port}` }, hurried);
      const copy = into();
      expect(await outcomeOf(cutting.get("a".repeat(64), copy))).toBeString();
      expect(asked).toBe(4);
      expect(existsSync(copy)).toBe(false);
    } finally {
      server.stop(true);
    }
  });

  test("a server that announces much and sends little gets no more time for that", async () => {
    const { s3, into } = await setUp();
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2000000000\r\n\r\nbeginning") },
    });
    try {
      const stalling = openS3Blobs({ ...s3.location, endpoint: `http://127.0.0.1:${server.port}` }, hurriedBy(200));
      const copy = into();
      expect(await outcomeOf(stalling.get("a".repeat(64), copy))).toBe("it took more than 10 s");
      expect(existsSync(copy)).toBe(false);
    } finally {
      server.stop(true);
    }
  });

  test("an object that is larger than any blob is damaged, and not downloaded", async () => {
    const { s3, into } = await setUp();
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 3000000000\r\n\r\nbeginning") },
    });
    try {
      const huge = openS3Blobs({ ...s3.location, endpoint: `http://127.0.0.1:${server.port}` }, hurried);
      const copy = into();
      expect(await outcomeOf(huge.get("a".repeat(64), copy))).toBeInstanceOf(DamagedBlob);
      expect(existsSync(copy)).toBe(false);
    } finally {
      server.stop(true);
    }
  });

  test("an ETag that is not the MD5 makes it read back what it stored", async () => {
    const { s3, blobs, fileOf, keyOf, methods, interfere } = await setUp();
    const { name, path } = fileOf("encrypted by the bucket");
    const otherTag = on("PUT", async (_, forward) => {
      const response = await forward();
      return new Response(null, { status: response.status, headers: { etag: '"0123456789abcdef0123456789abcdef-1"' } });
    });
    interfere(otherTag);
    expect(await blobs.put(name, path)).toBe(true);
    expect(methods()).toEqual(["PUT", "GET"]);

    // It says yes, and keeps something else.
    const lost = fileOf("lost on the way");
    interfere(on("PUT", () => new Response(null, { headers: { etag: '"lie"' } })));
    await s3.direct.write(keyOf(lost.name), "something else");
    expect(await outcomeOf(blobs.put(lost.name, lost.path))).toBe(`${lost.name} is not there after it was stored`);
    // One bad object does not stop the others.
    expect(blobs.failure()).toBeUndefined();
  });

  test("what is stored already is stored again: that it has an ETag says nothing of its bytes", async () => {
    const { s3, blobs, fileOf, keyOf, methods, interfere } = await setUp();
    const { name, path } = fileOf("moved before");
    await blobs.put(name, path);
    await s3.direct.write(keyOf(name), "moved beforE");
    interfere(undefined);
    expect(await blobs.put(name, path)).toBe(true);
    expect(methods()).toEqual(["PUT"]);
    expect(await s3.direct.file(keyOf(name)).text()).toBe("moved before");
    expect(await blobs.examine(name)).toBe(true);
    expect(await blobs.examine("a".repeat(64))).toBe(false);
  });

  test.each(["NoSuchUser", ""])("404 %s is no word of the object", async (code) => {
    const { s3, blobs, fileOf, into, interfere } = await setUp();
    const { name, path } = fileOf("there");
    await blobs.put(name, path);
    interfere(answer(404, code));
    // After a failure, each would rest.
    const anew = () => openS3Blobs(s3.location, hurried);
    for (const work of [() => anew().get(name, into()), () => anew().examine(name), () => anew().remove(name)]) {
      expect(await outcomeOf(work())).toMatch(/^the S3 server answered 404( NoSuchUser)? to (GET|DELETE)$/);
    }
  });

  test("pages of a long list follow one another", async () => {
    const { s3, blobs, keyOf, interfere } = await setUp();
    const names = Array.from({ length: 3 }, (_, n) => `${n}`.repeat(64));
    for (const name of names) await s3.direct.write(keyOf(name), "x");
    // A thousand objects would take long.
    interfere((_, forward) => forward().then(cutTo(2)));
    const first = await blobs.list();
    const second = await blobs.list(first.next);
    expect([...first.objects, ...second.objects].map(({ name }) => name)).toEqual(names);
    expect(second.next).toBeUndefined();
    interfere(undefined);
    expect((await blobs.list()).objects).toHaveLength(3);
  });

  test("requests are told with their outcome and bytes", async () => {
    const { blobs, fileOf, into, interfere } = await setUp();
    const told: S3Request[] = [];
    blobs.onRequest((request) => told.push(request));
    const { name, path } = fileOf("12345");
    let left = 1;
    interfere(() => (left-- > 0 ? answer(503, "SlowDown")() : undefined));
    await blobs.put(name, path);
    await blobs.get(name, into());
    await blobs.list();
    expect(told.map(({ method, ok, bytes }) => [method, ok, bytes])).toEqual([
      ["PUT", false, 0],
      ["PUT", true, 5],
      ["GET", true, 5],
      ["LIST", true, 0],
    ]);
  });

  test("a full disk is said as it is", async () => {
    const { blobs, fileOf } = await setUp();
    const { name, path } = fileOf("no room");
    await blobs.put(name, path);
    await expect(blobs.get(name, join(temporaryFolder(), "none", "x"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});
