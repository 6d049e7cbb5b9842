import { expect, test } from "bun:test";
import { join } from "node:path";
import { claimFolder } from "../../src/store/claim.ts";
import { temporaryFolder } from "../harness/folder.ts";

test("a refused claim in the same process does not release the folder", () => {
  const folder = temporaryFolder();
  const release = claimFolder(folder);
  expect(() => claimFolder(folder)).toThrow(/another server/);
  const claimed = join(import.meta.dir, "../../src/store/claim.ts");
  const script = `import { isDataFolderClaimed } from ${JSON.stringify(claimed)}; console.log(isDataFolderClaimed(${JSON.stringify(folder)}))`;
  const other = Bun.spawnSync([process.execPath, "-e", script]);
  expect(other.stdout.toString()).toBe("true\n");
  release();
});
