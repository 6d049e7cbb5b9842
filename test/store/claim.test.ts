import { expect, test } from "bun:test";
import { claimFolder } from "../../src/store/claim.ts";
import { temporaryFolder } from "../harness/folder.ts";

test("a data folder has one server, and another one after it ends", () => {
  const folder = temporaryFolder();
  const release = claimFolder(folder);
  expect(() => claimFolder(folder)).toThrow(/another server runs on the data folder/);
  claimFolder(temporaryFolder());
  release();
  claimFolder(folder);
});
