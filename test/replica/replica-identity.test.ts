/** DATA/replica.json: who the folder is, and whether it is the folder that wrote it. */
import { expect, test } from "bun:test";
import { cpSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  forgetReplicaIdentity,
  readReplicaIdentity,
  writeReplicaIdentity,
} from "../../src/replica/replica-identity.ts";
import { temporaryFolder } from "../harness/folder.ts";

const LOCATION = {
  ...{ bucket: "b", prefix: "team/", endpoint: "https://s3.example", region: "x" },
  ...{ accessKeyId: "id", secretAccessKey: "secret" },
};
const IDENTITY = { place: "https://s3.example/b/team/", holder: "h", epoch: 3, nonces: ["one", "two"] };

test("what is written is read, for the replica that it is of, by the folder that wrote it", async () => {
  const data = temporaryFolder();
  expect(readReplicaIdentity(data, LOCATION)).toBeUndefined();
  await writeReplicaIdentity(data, { ...IDENTITY, nonces: Array.from({ length: 32 }, () => "n".repeat(24)) });
  // Shorter, in the same place.
  await writeReplicaIdentity(data, IDENTITY);
  expect(readReplicaIdentity(data, LOCATION)).toEqual({ ...IDENTITY, isHere: true });
  expect(statSync(join(data, "replica.json")).mode & 0o777).toBe(0o600);
  expect(readReplicaIdentity(data, { ...LOCATION, prefix: "other/" })).toBeUndefined();

  const copy = temporaryFolder();
  cpSync(data, copy, { recursive: true });
  expect(readReplicaIdentity(copy, LOCATION)).toEqual({ ...IDENTITY, isHere: false });

  forgetReplicaIdentity(data);
  expect(readReplicaIdentity(data, LOCATION)).toBeUndefined();
});

test("what a power cut left of it counts as none", () => {
  const data = temporaryFolder();
  writeFileSync(join(data, "replica.json"), '{"place":"https');
  expect(readReplicaIdentity(data, LOCATION)).toBeUndefined();
});
