import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createShares, type Held, type Sharer } from "../../src/base/shares.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const of = (workspaceId: string, userId = "ada", keyId?: string): Sharer => ({
  workspaceId,
  userId: `${userId} of ${workspaceId}`,
  keyId,
});

function start(most: number, limits: { mostOfPerson?: number; mostOfKey?: number } = {}) {
  const runtime = fakeRuntime();
  const shares = createShares({ most, ...limits, runtime });
  /** Takes ones until there is no room. */
  function fill(who: Sharer): Held[] {
    const held: Held[] = [];
    for (let one = shares.take(who, 1); typeof one !== "string"; one = shares.take(who, 1)) held.push(one);
    return held;
  }
  return { runtime, shares, fill };
}

describe("one workspace", () => {
  test("leaves room for another, and gives up what it has beyond half once another asks", () => {
    const { shares, fill } = start(100);
    const greedy = Array.from({ length: 30 }, (_, i) => fill(of("a", `person ${i}`))).flat();
    expect(greedy.length).toBe(75);
    expect(fill(of("b", "bob")).length).toBeGreaterThanOrEqual(10);
    expect(shares.take(of("a", "another"), 1)).toBe("all");
    for (const { release } of greedy.splice(0, 25)) release();
    expect(shares.take(of("a", "another"), 1)).toBe("all");
    expect(typeof shares.take(of("b", "bea"), 1)).toBe("object");
  });

  test("has half of all beside others, whatever the number of its persons and keys", () => {
    const { shares, fill } = start(100);
    expect(typeof shares.take(of("b"), 1)).toBe("object");
    const held = Array.from({ length: 30 }, (_, i) => fill(of("a", `person ${i % 10}`, `key ${i}`))).flat();
    expect(held.length).toBe(50);
  });

  test("leaves room for each of its persons", () => {
    const { fill } = start(100);
    const counts = ["ada", "bob", "cy", "di", "eve"].map((name) => fill(of("a", name)).length);
    expect(counts[0]).toBe(50);
    expect(counts.every((count) => count > 0)).toBe(true);
  });
});

test("a person and a key have limits of their own", () => {
  const { shares, fill } = start(100, { mostOfPerson: 12, mostOfKey: 4 });
  expect(["x", "y", "z", "v"].map((key) => fill(of("a", "ada", key)).length)).toEqual([4, 4, 4, 0]);
  expect(shares.take(of("a", "ada", "v"), 1)).toBe("yours");
  expect(fill(of("a", "bob")).length).toBe(4);
  expect(shares.refused()).toEqual({ yours: 6, all: 0 });
});

test("who holds nothing finds room, whatever three others did before", () => {
  const deed = fc.record({
    who: fc.constantFrom("a", "b", "c"),
    person: fc.integer({ min: 0, max: 9 }),
    gives: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(deed, { maxLength: 400 }), (deeds) => {
      const { shares } = start(100);
      const held = new Map<string, Held[]>([
        ["a", []],
        ["b", []],
        ["c", []],
      ]);
      for (const { who, person, gives } of deeds) {
        const theirs = held.get(who) as Held[];
        if (gives) theirs.pop()?.release();
        const one = shares.take(of(who, String(person)), 1);
        if (typeof one === "string") continue;
        theirs.push(one);
        const others = [...held.values()].flat().length - theirs.length;
        expect(theirs.length).toBeLessThanOrEqual(others > 0 ? 50 : 75);
      }
      expect(typeof shares.take(of("new"), 1)).toBe("object");
      expect(shares.held()).toBe([...held.values()].flat().length + 1);
    }),
  );
});

test("what is larger than a part has it alone, and what is larger than all has all", () => {
  const { shares } = start(100, { mostOfKey: 20 });
  const large = shares.take(of("a"), 80) as Held;
  expect(shares.take(of("a"), 1)).toBe("yours");
  expect(typeof shares.take(of("b"), 20)).toBe("object");
  large.release();
  expect(shares.take(of("a"), 101)).toBe("all");
  const { shares: empty } = start(100);
  expect(typeof empty.take(of("a"), 101)).toBe("object");
});

test("an amount that changes, and what was given back twice, count truly", () => {
  const { shares } = start(100);
  const held = shares.take(of("a"), 10) as Held;
  held.change(90);
  expect([shares.held(), shares.take(of("b"), 11)]).toEqual([90, "all"]);
  held.release();
  held.release();
  expect(shares.held()).toBe(0);
});

describe("who waits", () => {
  const never = new AbortController().signal;

  test("is let in by order as room comes, and holds up nobody of another workspace", async () => {
    const { shares } = start(100);
    const held = [shares.take(of("a", "ada"), 40), shares.take(of("b", "bob"), 30)] as Held[];
    const order: string[] = [];
    const wait = (who: Sharer, amount: number, name: string) =>
      shares.wait(who, amount, 1_000, never).then((one) => {
        order.push(name);
        return one;
      });
    const first = wait(of("a", "al"), 25, "a first");
    const second = wait(of("a", "al"), 5, "a second");
    expect(shares.waiting()).toBe(1);
    expect(typeof shares.take(of("c"), 10)).toBe("object");
    held[0]?.release();
    await Promise.all([first, second]);
    expect(order).toEqual(["a second", "a first"]);
    expect(shares.held()).toBe(70);
  });

  test("goes without after its time, or when its client left, and is forgotten", async () => {
    const { shares, runtime } = start(10);
    const held = shares.take(of("a"), 10) as Held;
    const leaving = new AbortController();
    const late = shares.wait(of("b"), 5, 1_000, never);
    const left = shares.wait(of("b"), 5, 1_000, leaving.signal);
    const gone = shares.wait(of("b"), 5, 1_000, AbortSignal.abort());
    leaving.abort();
    expect([await left, await gone, shares.waiting()]).toEqual([undefined, undefined, 1]);
    runtime.advanceTo(runtime.now() + 1_000);
    expect(await late).toBeUndefined();
    expect([shares.waiting(), runtime.timers()]).toEqual([0, []]);
    held.release();
    expect(shares.held()).toBe(0);
  });

  test("counts as asking: another workspace takes no more than half meanwhile", async () => {
    const { shares, runtime } = start(100);
    const held = shares.take(of("a", "ada"), 45) as Held;
    const waits = shares.wait(of("b"), 70, 1_000, never);
    expect(shares.take(of("a", "bob"), 10)).toBe("all");
    runtime.advanceTo(runtime.now() + 1_000);
    await waits;
    expect(typeof shares.take(of("a", "bob"), 10)).toBe("object");
    held.release();
  });
});
