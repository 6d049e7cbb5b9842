/** A caller that takes as much as it gets of what all share leaves room for other persons and workspaces. */
import { describe, expect, test } from "bun:test";
import { createRequestShares, listRequestShares, registerRequestShareMetrics } from "../../src/api/pools.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import type { Sharer, Shares } from "../../src/base/shares.ts";
import { readExposition } from "../harness/clients/exposition.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const MB = 1024 * 1024;

const pools = () => createRequestShares({ mostConnections: 1_000, mostUnread: 128 * MB, runtime: fakeRuntime() });

/** Takes as much as there is with every key of a person. */
function takeAll(shares: Shares, person: Omit<Sharer, "keyId">, amount: number): void {
  for (let key = 0; key < 60; key++) {
    const who = { ...person, keyId: `${person.workspaceId} ${person.userId} ${key}` };
    while (typeof shares.take(who, amount) !== "string");
  }
}

describe.each([
  ["answers", 2 * MB],
  ["waits", 1],
  ["streams", 1],
  ["uploads", 1],
  ["bodies", MB],
  ["appended", MB],
])("%s", (name, amount) => {
  const start = () => listRequestShares(pools())[name] as Shares;

  test("a person with sixty keys leaves room for another of the workspace", () => {
    const shares = start();
    takeAll(shares, { workspaceId: "a", userId: "greedy" }, amount);
    expect(typeof shares.take({ workspaceId: "a", userId: "other", keyId: "x" }, amount)).toBe("object");
  });

  test("a workspace with sixty greedy people leaves a quarter to another, and has half beside it", () => {
    const shares = start();
    const takeWith = (workspaceId: string) => {
      for (let person = 0; person < 60; person++) takeAll(shares, { workspaceId, userId: String(person) }, amount);
    };
    takeWith("a");
    expect(shares.held()).toBeLessThanOrEqual((shares.most * 3) / 4);
    const before = shares.held();
    takeWith("b");
    expect(shares.held() - before).toBeGreaterThanOrEqual(shares.most / 8);
    const shared = start();
    shared.take({ workspaceId: "b", userId: "bob" }, amount);
    for (let person = 0; person < 60; person++) takeAll(shared, { workspaceId: "a", userId: String(person) }, amount);
    expect(shared.held() - amount).toBeLessThanOrEqual(shared.most / 2);
  });
});

test("/metrics tells what is held, how much there is, and what had no room", async () => {
  const all = pools();
  const metrics = createMetrics();
  registerRequestShareMetrics(metrics, all);
  takeAll(all.waits, { workspaceId: "a", userId: "ada" }, 1);
  const families = readExposition(await metrics.expose());
  const sampleOf = (name: string, wanted: Record<string, string>) =>
    families
      .get(name)
      ?.samples.find(({ labels }) => Object.entries(wanted).every(([label, is]) => labels[label] === is))?.value;
  expect(sampleOf("mailroom_shared", { pool: "waits", kind: "held" })).toBe(50);
  expect(sampleOf("mailroom_shared", { pool: "waits", kind: "most" })).toBe(100);
  expect(sampleOf("mailroom_shared", { pool: "answers", kind: "most" })).toBe(128 * MB);
  expect(sampleOf("mailroom_shared_refusals_total", { pool: "waits", by: "yours" })).toBeGreaterThan(0);
  expect(sampleOf("mailroom_shared_refusals_total", { pool: "waits", by: "all" })).toBe(0);
  expect(sampleOf("mailroom_answers_waiting", {})).toBe(0);
});
