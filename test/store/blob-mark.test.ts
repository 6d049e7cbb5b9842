import { expect, test } from "bun:test";
import { unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readBlobMark, requireMarkedPlace, writeBlobMark } from "../../src/store/blob-mark.ts";
import { temporaryFolder } from "../harness/folder.ts";

test("the mark of a place in S3 is needed as long as blobs are there", () => {
  const data = temporaryFolder();
  requireMarkedPlace(data, undefined);
  requireMarkedPlace(data, "https://s3.test/one/");
  writeBlobMark(data, { place: "https://s3.test/one/", target: "s3", id: "x" });
  requireMarkedPlace(data, "https://s3.test/one/");
  expect(() => requireMarkedPlace(data, undefined)).toThrow(/https:\/\/s3\.test\/one\/, and MAILROOM_BLOBS is not set/);
  expect(() => requireMarkedPlace(data, "https://s3.test/two/")).toThrow(/leads to https:\/\/s3\.test\/two\//);
  writeBlobMark(data, { place: null, target: "files", id: "x" });
  requireMarkedPlace(data, undefined);
  expect(readBlobMark(data)).toEqual({ place: null, target: "files", id: "x" });
  unlinkSync(join(data, "blobs.json"));
  writeFileSync(join(data, "blobs.json"), "{");
  expect(() => requireMarkedPlace(data, undefined)).toThrow(/blobs\.json cannot be read/);
});
