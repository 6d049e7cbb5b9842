/** Invitations in a bucket in which somebody else writes, too. */
import { expect, test } from "bun:test";
import { openS3 } from "../../src/net/s3.ts";
import { findLastReplicaTransaction } from "../../src/replica/follow.ts";
import { inviteStandby } from "../../src/replica/join.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { describeS3, type S3, startS3 } from "../harness/peers/s3.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const runtime = fakeRuntime({ fetch });

/** Has the bucket list these keys, below its prefix `team/`, and no more after them. */
function listing(s3: S3, keys: readonly string[], more = false): void {
  const contents = keys.map((key) => `<Contents><Key>${key}</Key></Contents>`).join("");
  let isFirst = true;
  s3.interfere((request) => {
    if (!request.url.includes("list-type")) return undefined;
    const page = isFirst ? `<IsTruncated>${more}</IsTruncated>${contents}` : "";
    isFirst = false;
    return new Response(`<ListBucketResult>${page}</ListBucketResult>`);
  });
}

/** Names by which a request, as a path, would reach another object or bucket. */
const ELSEWHERE = [
  "team/join/../../../victim/file",
  "team/join/./../lease",
  "team/join/%2e%2e/lease",
  "team/join/..%2Flease",
  "team/join//lease",
  "team/join/x?versionId=1",
  "team/join/x#y",
  "team/join/a b",
  "team/join/\u00e4",
  "team/lease",
  "lease",
];

describeS3("a bucket with names that lead elsewhere", (program) => {
  test("costs an invitation no other object", async () => {
    const s3 = await startS3(program);
    const earlier = `team/join/${"a".repeat(32)}`;
    listing(s3, [...ELSEWHERE, earlier]);
    await inviteStandby({ data: temporaryFolder(), location: s3.location, runtime });
    const { bucket } = s3.location;
    expect(s3.asked.filter((line) => line.startsWith("DELETE"))).toEqual([`DELETE /${bucket}/${earlier}`]);
    expect(s3.asked.filter((line) => line.startsWith("PUT"))).toHaveLength(1);
  });

  test("is read on behind them", async () => {
    const s3 = await startS3(program);
    listing(s3, ["team/epochs/1/0000/../../../zzz-ffffffffffffffff.ltx"], true);
    expect(await findLastReplicaTransaction(openS3(s3.location, runtime), 1)).toBeUndefined();
    expect(s3.asked).toHaveLength(2);
  });
});
