/** The few requests to an S3 server, over a real one. */
import { expect, test } from "bun:test";
import { openS3, S3Error } from "../../src/net/s3.ts";
import { describeS3, startS3 } from "../harness/peers/s3.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const runtime = fakeRuntime({ fetch });

describeS3("objects on S3", (program) => {
  test("are written, read and removed below the prefix", async () => {
    const s3 = await startS3(program);
    const objects = openS3(s3.location, runtime);
    expect(await objects.get("a/b")).toBeUndefined();
    const etag = await objects.put("a/b", "grüße");
    expect(await objects.get("a/b")).toEqual({ text: "grüße", etag: etag as string });
    expect(await s3.direct.file("team/a/b").text()).toBe("grüße");
    await objects.remove("a/b");
    await objects.remove("a/b");
    expect(await objects.get("a/b")).toBeUndefined();
  });

  test("are written only if the condition is met", async () => {
    const objects = openS3((await startS3(program)).location, runtime);
    expect(await objects.put("x", "0", { etag: '"none"' })).toBeUndefined();
    const first = (await objects.put("x", "1", { absent: true })) as string;
    expect(await objects.put("x", "2", { absent: true })).toBeUndefined();
    const second = (await objects.put("x", "3", { etag: first })) as string;
    expect(await objects.put("x", "4", { etag: first })).toBeUndefined();
    expect(await objects.get("x")).toEqual({ text: "3", etag: second });
  });

  test("are listed by folder", async () => {
    const s3 = await startS3(program);
    for (const key of ["epochs/1/a", "epochs/1/b", "epochs/20/c/d", "epochs/file", "other/3/x"]) {
      await s3.direct.write(`team/${key}`, "x");
    }
    expect(await openS3(s3.location, runtime).folders("epochs/")).toEqual(["1", "20"]);
  });

  test("an error says what the server answered, and no secret", async () => {
    const s3 = await startS3(program);
    const objects = openS3(s3.location, runtime);
    s3.interfere(() => new Response("<Error><Code>InvalidAccessKeyId</Code></Error>", { status: 403 }));
    const error = await objects.put("x", "1", { absent: true }).catch((error) => error);
    expect(error).toBeInstanceOf(S3Error);
    expect(error.status).toBe(403);
    expect(error.message).toContain("403 InvalidAccessKeyId to PUT");
    expect(error.message).not.toContain(s3.location.secretAccessKey);
    const elsewhere = openS3({ ...s3.location, bucket: "there-is-none" }, runtime);
    s3.interfere(undefined);
    await expect(elsewhere.get("x")).rejects.toThrow("404 NoSuchBucket to GET there-is-none");
    for (const body of ["<Error><Code>NoSuchUser</Code></Error>", "<html>Not Found</html>", ""]) {
      s3.interfere(() => new Response(body, { status: 404 }));
      const asked = [objects.get("x"), objects.put("x", "1", { etag: '"a"' }), objects.remove("x")];
      for (const { reason } of (await Promise.allSettled(asked)) as PromiseRejectedResult[]) {
        expect(reason).toMatchObject({ name: "S3Error", status: 404 });
      }
    }
    const nobody = openS3({ ...s3.location, endpoint: "http://127.0.0.1:9" }, runtime);
    await expect(nobody.get("x")).rejects.toThrow("the S3 server http://127.0.0.1:9 cannot be used");
  });

  test("a server that does not answer has its time", async () => {
    const s3 = await startS3(program);
    const clock = fakeRuntime({ fetch });
    s3.interfere(() => new Promise<Response>(() => {}));
    const asking = openS3(s3.location, clock, 5_000).get("x");
    asking.catch(() => {});
    await until(() => s3.asked.length > 0);
    clock.advanceTo(clock.now() + 5_000);
    await expect(asking).rejects.toThrow("no answer within 5 s");
  });
});
