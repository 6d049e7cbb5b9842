/** Which backups leave once there are more than are to be kept. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GENERATIONS, generationId, listGenerations, MARKER, markOf } from "../../src/backup/layout.ts";
import { keepNewest } from "../../src/backup/make.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { START } from "../harness/runtime.ts";

const DAY_MS = 86_400_000;

test("backups from the future are removed first, then the oldest", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, MARKER), markOf(1));
  const ids = [-2, -1, 0, 1, 2].map((days) => generationId(START + days * DAY_MS));
  for (const id of ids) mkdirSync(join(folder, GENERATIONS, id), { recursive: true });
  const kept = async (keep: number | undefined) => {
    await keepNewest(folder, keep, START);
    return (await listGenerations(folder)).map(({ id }) => ids.indexOf(id));
  };
  expect(await kept(undefined)).toEqual([0, 1, 2, 3, 4]);
  expect(await kept(4)).toEqual([0, 1, 2, 4]);
  expect(await kept(2)).toEqual([1, 2]);
  expect(await kept(1)).toEqual([2]);
});
