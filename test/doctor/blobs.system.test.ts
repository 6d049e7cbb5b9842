import { describe, expect, test } from "bun:test";
import { systemRuntime } from "../../src/base/runtime.ts";
import { checkBlobs } from "../../src/doctor/checks/blob-checks.ts";
import { bytesOf, openRemote, type RemoteRig } from "../harness/peers/remote-blobs.ts";
import { noS3 } from "../harness/peers/s3.ts";

const look = async ({ blobs, runtime }: Pick<RemoteRig, "blobs" | "runtime">) =>
  checkBlobs({ store: { remote: blobs }, runtime: { ...systemRuntime(), ...runtime } } as never);

test("attachments in the data folder need no check", async () => {
  expect(await checkBlobs({ store: {} } as never)).toEqual([]);
});

describe.skipIf(noS3 !== undefined)(`the doctor looks at attachments in S3${noS3 ? `: ${noS3}` : ""}`, () => {
  test("all is well, and nothing is left of the look", async () => {
    const rig = await openRemote();
    await rig.blobs.write(bytesOf("one"));
    expect(await look(rig)).toMatchObject([
      { id: "blobs", state: "ok", detail: expect.stringContaining("answers in") },
    ]);
    const { contents = [] } = await rig.s3.direct.list();
    expect(contents.map(({ key }) => key).filter((key) => key.includes("probe"))).toEqual([]);
  });

  test.each(["PUT", "GET", "DELETE"])("a key that may not %s is bad, with what it needs", async (method) => {
    const rig = await openRemote();
    await rig.blobs.isOwner();
    rig.s3.interfere((request) =>
      request.method === method ? new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 }) : undefined,
    );
    expect(await look(rig)).toMatchObject([
      {
        state: "bad",
        detail: expect.stringContaining("403 AccessDenied"),
        todo: expect.stringContaining("s3:DeleteObject"),
      },
    ]);
  });

  test("a slow place is worth knowing", async () => {
    const rig = await openRemote();
    rig.s3.interfere((_, forward) => {
      rig.runtime.advance(2_000);
      return forward();
    });
    expect(await look(rig)).toMatchObject([{ state: "warning", todo: expect.stringContaining("nearer") }]);
  });

  test("a place that another data folder looks after is worth knowing", async () => {
    const first = await openRemote();
    await first.blobs.own();
    const second = await openRemote(first.s3);
    expect(await look(second)).toMatchObject([
      { state: "ok" },
      { id: "blobs-target", state: "warning", detail: expect.stringContaining("another data folder") },
    ]);
  });
});
