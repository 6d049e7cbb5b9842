import { expect, test } from "bun:test";
import { testContract } from "../../harness/engine-contract.ts";
import { seedIndex } from "../../harness/search-seed.ts";

testContract(seedIndex, { runs: 50 });

test("upkeep comes to an end and changes no result", async () => {
  const { engine, add, search } = seedIndex();
  for (let i = 0; i < 40; i++) add({ thread: `t${i}`, text: `word number${i}` });
  const before = await search("word");
  let steps = 0;
  while (engine.maintain()) steps++;
  expect(steps).toBeGreaterThan(0);
  expect(engine.maintain()).toBe(false);
  expect(await search("word")).toEqual(before);
  expect(await search("number7")).toEqual(["t7"]);
});
