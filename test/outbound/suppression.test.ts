import { expect, test } from "bun:test";
import { AppError } from "../../src/base/errors.ts";
import { newId } from "../../src/base/runtime.ts";
import { listSuppressions, suppress, suppressedAmong, unsuppress } from "../../src/outbound/suppression.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

function setUp() {
  const world = createWorld();
  const { store, runtime } = world;
  const add = (workspaceId: string, address: string, reason = "hard bounce: 550 5.1.1 No such user") =>
    store.transact((tx) =>
      suppress(tx, { id: newId(runtime, "sup"), workspaceId, address, reason, now: runtime.now() }),
    );
  const remove = (workspaceId: string, id: string) => store.transact((tx) => unsuppress(tx, workspaceId, id));
  const listed = (workspaceId?: string) => listSuppressions(store.db, workspaceId).map(({ address }) => address);
  return {
    ...world,
    add,
    remove,
    listed,
    demo: world.workspace("Demo", "demo.test"),
    acme: world.workspace("Acme", "acme.test"),
  };
}

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "done";
};

test("addresses match in any spelling, except for the tag", () => {
  const { add, store, demo } = setUp();
  add(demo, "Carol@REMOTE.example");
  add(demo, "jürgen@bücher.example");
  add(demo, "dave+lists@remote.example");
  const table: [address: string, suppressed: boolean][] = [
    ["carol@remote.example", true],
    ["CAROL@Remote.Example", true],
    ['"carol"@remote.example', true],
    ["carol+x@remote.example", false],
    ["carol@sub.remote.example", false],
    ["JÜRGEN@xn--bcher-kva.example", true],
    ["carol@re\u00admote.example", true],
    ["carol@remote\u3002example", true],
    ["dave+lists@remote.example", true],
    ["dave@remote.example", false],
    ["no address", false],
  ];
  const given = table.map(([address]) => address);
  expect(suppressedAmong(store.db, demo, given)).toEqual(
    table.filter(([, suppressed]) => suppressed).map(([address]) => address),
  );
});

test("each workspace has its own list", () => {
  const { add, store, listed, demo, acme } = setUp();
  add(demo, "carol@remote.example");
  expect(suppressedAmong(store.db, acme, ["carol@remote.example"])).toEqual([]);
  add(acme, "carol@remote.example");
  add(acme, "dave@remote.example");
  expect(listed(demo)).toEqual(["carol@remote.example"]);
  expect(listed(acme)).toEqual(["carol@remote.example", "dave@remote.example"]);
  expect(listed()).toEqual(["carol@remote.example", "carol@remote.example", "dave@remote.example"]);
});

test("the first reason stays, with its id and time", () => {
  const { add, store, runtime, demo } = setUp();
  add(demo, "carol@remote.example", "complaint: reported as abuse");
  const before = listSuppressions(store.db);
  runtime.advanceTo(runtime.now() + 1_000);
  add(demo, "CAROL@remote.example", "hard bounce: 550 5.1.1 No such user");
  expect(listSuppressions(store.db)).toEqual(before);
  expect(before).toMatchObject([{ reason: "complaint: reported as abuse", createdAt: runtime.now() - 1_000 }]);
});

test("an entry is removed from its own workspace's list only", () => {
  const { add, remove, listed, demo, acme } = setUp();
  const { id } = add(demo, "carol@remote.example");
  add(acme, "carol@remote.example");
  expect(codeOf(() => remove(acme, id))).toMatch(/^not_found: .*no suppression/);
  remove(demo, id);
  expect([listed(demo), listed(acme)]).toEqual([[], ["carol@remote.example"]]);
  expect(codeOf(() => remove(demo, id))).toMatch(/^not_found: .*no suppression/);
});

test("a text that is not an address is refused, by name", () => {
  const { add, listed, demo } = setUp();
  expect(codeOf(() => add(demo, "carol"))).toBe("unprocessable: carol is not an email address");
  expect(listed()).toEqual([]);
});
