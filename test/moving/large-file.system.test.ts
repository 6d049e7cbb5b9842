/** A file of a workspace that moves here goes to its place piece by piece. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { copySource, exportTo, makeSource, newExport } from "../harness/servers/moving-world.ts";
import { run } from "../harness/servers/process.ts";
import { agree, copyOf, generationOf, writeBlob } from "./moving-export.ts";

const MB = 1024 * 1024;

test("a file of 120 MB costs an import little memory", async () => {
  await makeSource();
  const small = newExport();
  await exportTo(await copySource(), small, "--final");
  const large = copyOf(small);
  const size = 120 * MB;
  const db = new Database(join(generationOf(large), "mailroom.db"));
  db.query("UPDATE attachments SET size = ?, blob = ?").run(size, writeBlob(large, new Uint8Array(size)));
  db.close();
  agree(large);
  const memory: number[] = [];
  for (const folder of [small, large]) {
    const { exitCode, stderr, mostMemory } = await run({ data: temporaryFolder() }, ["workspace", "import", folder]);
    expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining("mailroom:")]);
    memory.push(mostMemory);
  }
  expect(memory[1]).toBeLessThan((memory[0] ?? 0) + 60 * MB);
}, 120_000);
