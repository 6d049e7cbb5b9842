/** Routing of mail by address (rules: Addresses, Postmaster and abuse). */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import type { MailboxRoute, Route } from "../../../src/mailbox/state/addresses.ts";
import {
  isDomainVerifiedElsewhere,
  isRouteStillValid,
  localDomain,
  routeIncomingMail,
  routeMailFromWorkspace,
  routeWithin,
} from "../../../src/mailbox/state/addresses.ts";
import { domains, mailboxes, users } from "../../../src/store/schema.ts";
import { createWorld } from "../../harness/servers/mailbox-world.ts";

function office() {
  const world = createWorld();
  const workspaceId = world.workspace("W", "example.test");
  const owner = world.user(workspaceId, "owner@example.test", "owner");
  const first = world.box(workspaceId, "zzz@example.test", owner);
  world.runtime.advanceTo(world.runtime.now() + 1);
  const boxes = {
    first,
    owner: world.box(workspaceId, "owner@example.test", owner),
    ann: world.box(workspaceId, "ann@example.test"),
    plus: world.box(workspaceId, "list+ann@example.test"),
  };
  world.alias(boxes.ann, "sales@example.test");
  return { world, workspaceId, owner, boxes };
}

describe("an address", () => {
  const cases: [string, "ann" | "plus" | "owner", string, boolean][] = [
    ["ann@example.test", "ann", "ann@example.test", false],
    ["ANN@Example.TEST", "ann", "ann@example.test", false],
    ['"ann"@example.test', "ann", "ann@example.test", false],
    ["ann+news@example.test", "ann", "ann@example.test", false],
    ["ann+a+b@example.test", "ann", "ann@example.test", false],
    ["sales@example.test", "ann", "sales@example.test", false],
    ["Sales+q@example.test", "ann", "sales@example.test", false],
    ["list+ann@example.test", "plus", "list+ann@example.test", false],
    ["postmaster@example.test", "owner", "postmaster@example.test", true],
    ["PostMaster+x@example.test", "owner", "postmaster@example.test", true],
    ["abuse@example.test", "owner", "abuse@example.test", true],
    ["postmaster", "owner", "postmaster@example.test", true],
    ["POSTMASTER", "owner", "postmaster@example.test", true],
  ];
  for (const [address, to, receivedOn, exempt] of cases) {
    test(`${address} reaches ${to}`, () => {
      const { world, workspaceId, boxes } = office();
      expect(routeIncomingMail(world.core.db, address, world.core.now())).toEqual({
        kind: "mailbox",
        mailboxId: boxes[to],
        workspaceId,
        domainId: expect.any(String),
        receivedOn,
        exempt,
      });
    });
  }

  for (const [address, kind] of [
    ["nobody@example.test", "unknown"],
    ["list@example.test", "unknown"],
    ["+ann@example.test", "unknown"],
    ["ann@example.org", "not-local"],
    ["ann@sub.example.test", "not-local"],
    ["postmaster@example.org", "not-local"],
    ["ann", "not-local"],
    ["", "not-local"],
    ["@", "not-local"],
    ["@example.test", "not-local"],
    ["ann@[127.0.0.1]", "not-local"],
  ] as const) {
    test(`${address || "the empty one"} is ${kind}`, () => {
      expect(routeIncomingMail(office().world.core.db, address, office().world.core.now())).toEqual({ kind });
    });
  }
});

describe("a route that was found before", () => {
  const found = () => {
    const it = office();
    const route = routeIncomingMail(it.world.core.db, "ann@example.test", it.world.core.now()) as MailboxRoute;
    return { ...it, route, reaches: () => isRouteStillValid(it.world.core.db, route, it.world.core.now()) };
  };

  test("stands until its mailbox expires", () => {
    const { world, boxes, reaches } = found();
    const expiresAt = world.runtime.now() + 1_000;
    world.store.db.update(mailboxes).set({ expiresAt }).where(eq(mailboxes.id, boxes.ann)).run();
    expect(reaches()).toBe(true);
    world.runtime.advanceTo(expiresAt);
    expect(reaches()).toBe(false);
  });

  test("ends with its mailbox", () => {
    const { world, boxes, reaches } = found();
    world.store.db.delete(mailboxes).where(eq(mailboxes.id, boxes.ann)).run();
    expect(reaches()).toBe(false);
  });

  test("ends when its workspace no longer holds the domain", () => {
    const { world, workspaceId, reaches } = found();
    const unverified = { verifiedAt: null, acceptsUnverified: false };
    world.store.db.update(domains).set(unverified).where(eq(domains.workspaceId, workspaceId)).run();
    expect(reaches()).toBe(false);
  });
});

describe("a catch-all", () => {
  test("receives mail for unknown addresses, recorded without the tag", () => {
    const { world, boxes } = office();
    world.alias(boxes.ann, "*@example.test");
    expect(routeIncomingMail(world.core.db, "any.thing@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.ann,
      receivedOn: "any.thing@example.test",
      exempt: false,
    });
    expect(routeIncomingMail(world.core.db, "any+tag@example.test", world.core.now())).toMatchObject({
      receivedOn: "any@example.test",
    });
    expect(routeIncomingMail(world.core.db, "owner+tag@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.owner,
    });
    expect(routeIncomingMail(world.core.db, "postmaster@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.owner,
    });
    expect(routeIncomingMail(world.core.db, "x@example.org", world.core.now())).toEqual({ kind: "not-local" });
  });
});

describe("postmaster and abuse", () => {
  test("belong to the mailbox or alias with that address, and stay exempt", () => {
    const { world, workspaceId, boxes } = office();
    const abuse = world.box(workspaceId, "abuse@example.test");
    world.alias(boxes.ann, "postmaster@example.test");
    expect(routeIncomingMail(world.core.db, "abuse@example.test", world.core.now())).toMatchObject({
      mailboxId: abuse,
      exempt: true,
    });
    expect(routeIncomingMail(world.core.db, "postmaster", world.core.now())).toMatchObject({
      mailboxId: boxes.ann,
      exempt: true,
    });
  });

  test("of a mailbox that expired reach no catch-all of another, if the owner has no mailbox", () => {
    const { world, owner, boxes } = office();
    world.alias(boxes.ann, "*@example.test");
    world.alias(boxes.first, "abuse@example.test");
    world.store.db.update(mailboxes).set({ expiresAt: 1 }).where(eq(mailboxes.id, boxes.first)).run();
    expect(routeIncomingMail(world.core.db, "abuse@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.owner,
    });
    world.store.db.update(mailboxes).set({ ownerId: null }).where(eq(mailboxes.ownerId, owner.userId)).run();
    for (const address of ["abuse@example.test", "abuse+x@example.test"]) {
      expect(routeIncomingMail(world.core.db, address, world.core.now())).toEqual({ kind: "unknown" });
    }
    expect(routeIncomingMail(world.core.db, "postmaster@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.ann,
    });
  });

  test("reach the owner's first mailbox if none has their sign-in address", () => {
    const { world, owner, boxes } = office();
    world.store.db.update(users).set({ email: "else@elsewhere.example" }).where(eq(users.id, owner.userId)).run();
    expect(routeIncomingMail(world.core.db, "abuse@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.first,
    });
  });

  test("reach the catch-all if the owner has no mailbox, else are unknown", () => {
    const { world, boxes } = office();
    world.store.db.update(mailboxes).set({ ownerId: null }).run();
    expect(routeIncomingMail(world.core.db, "abuse@example.test", world.core.now())).toEqual({ kind: "unknown" });
    world.alias(boxes.ann, "*@example.test");
    expect(routeIncomingMail(world.core.db, "abuse@example.test", world.core.now())).toMatchObject({
      mailboxId: boxes.ann,
      exempt: true,
    });
  });

  test("of another workspace reach its own owner", () => {
    const { world } = office();
    const there = world.workspace("There", "there.test");
    const box = world.box(there, "boss@there.test", world.user(there, "boss@there.test", "owner"));
    expect(routeIncomingMail(world.core.db, "postmaster@there.test", world.core.now())).toMatchObject({
      mailboxId: box,
      workspaceId: there,
    });
  });

  test("bare postmaster is not local before there is a domain", () => {
    expect(routeIncomingMail(createWorld().core.db, "postmaster", createWorld().core.now())).toEqual({
      kind: "not-local",
    });
  });
});

test("a domain compares as A-labels", () => {
  const world = createWorld();
  const workspaceId = world.workspace("W", "xn--mnchen-3ya.example");
  const box = world.box(workspaceId, "info@xn--mnchen-3ya.example");
  for (const address of ["info@münchen.example", "info@MÜNCHEN.example", "INFO@XN--MNCHEN-3YA.example"]) {
    expect(routeIncomingMail(world.core.db, address, world.core.now())).toMatchObject({
      mailboxId: box,
      receivedOn: "info@xn--mnchen-3ya.example",
    });
  }
});

describe("a domain that two workspaces claim", () => {
  /** Each has info@shop.test and a catch-all; neither has verified the domain. */
  function claims() {
    const world = createWorld();
    const boxes = ["One", "Two"].map((name) => {
      const workspaceId = world.workspace(name, "shop.test");
      const owner = world.user(workspaceId, `${name.toLowerCase()}@elsewhere.example`, "owner");
      const box = world.box(workspaceId, "info@shop.test", owner);
      world.alias(box, "*@shop.test");
      return { workspaceId, box };
    }) as [{ workspaceId: string; box: string }, { workspaceId: string; box: string }];
    world.store.db.update(domains).set({ acceptsUnverified: false }).run();
    const { core } = world;
    const to = (route: Route) => (route.kind === "mailbox" ? route.mailboxId : route.kind);
    return {
      world,
      boxes,
      verify: (i: 0 | 1) =>
        world.store.db
          .update(domains)
          .set({ verifiedAt: 1 })
          .where(eq(domains.workspaceId, boxes[i].workspaceId))
          .run(),
      ways: (address: string) => ({
        outside: to(routeIncomingMail(core.db, address, core.now())),
        mailOf: boxes.map(({ workspaceId }) => to(routeMailFromWorkspace(core.db, workspaceId, address, core.now()))),
        stranger: to(routeMailFromWorkspace(core.db, "wsp_other", address, core.now())),
        within: boxes.map(({ workspaceId }) => to(routeWithin(core.db, workspaceId, address))),
      }),
    };
  }
  const everywhere = ["info", "INFO+tag", "anything", "postmaster", "abuse"].map((name) => `${name}@Shop.test`);

  test.each(everywhere)("%s: mail from outside reaches neither; each gets its own", (address) => {
    const { ways, boxes } = claims();
    const own = boxes.map(({ box }) => box);
    expect(ways(address)).toEqual({ outside: "unverified", mailOf: own, stranger: "not-local", within: own });
  });

  test.each(everywhere)("%s: all mail reaches the one that verified it", (address) => {
    const { ways, boxes, verify } = claims();
    verify(1);
    const [{ box: lost }, { box }] = boxes;
    expect(ways(address)).toEqual({ outside: box, mailOf: [box, box], stranger: box, within: [lost, box] });
  });

  test("a bare postmaster never belongs to a merely claimed domain, even the oldest", () => {
    const { world } = claims();
    world.runtime.advanceTo(world.runtime.now() + 1);
    const owner = world.user(world.workspace("Known", "known.test"), "a@known.test", "owner");
    const box = world.box(owner.workspaceId, "a@known.test", owner);
    expect(routeIncomingMail(world.core.db, "postmaster", world.core.now())).toMatchObject({
      mailboxId: box,
      receivedOn: "postmaster@known.test",
    });
  });
});

test("mail to a domain in any case is local: for its own workspace, and once verified for all", () => {
  const { world, workspaceId } = office();
  const { core, store } = world;
  expect(localDomain(core.db, workspaceId, "Example.TEST") !== undefined).toBe(true);
  expect(localDomain(core.db, "wsp_other", "example.test") !== undefined).toBe(false);
  expect(isDomainVerifiedElsewhere(core.db, "wsp_other", "example.test")).toBe(false);
  store.db.update(domains).set({ verifiedAt: 1 }).run();
  expect(localDomain(core.db, "wsp_other", "Example.TEST") !== undefined).toBe(true);
  expect(isDomainVerifiedElsewhere(core.db, "wsp_other", "example.test")).toBe(true);
  expect(isDomainVerifiedElsewhere(core.db, workspaceId, "example.test")).toBe(false);
  for (const name of ["remote.example", "sub.example.test", ""])
    expect(localDomain(core.db, workspaceId, name) !== undefined).toBe(false);
});
