/** Reach (rules: Reach, Mailbox access): roles × ownership × grants, and nothing beyond a workspace. */
import { describe, expect, test } from "bun:test";
import {
  type Access,
  type Caller,
  findReach,
  findReachableMailboxes,
  outOfReachError,
  type Reach,
  requireAccess,
  requireScope,
} from "../../src/access/caller.ts";
import type { AppError } from "../../src/base/errors.ts";
import { GRANT_ACCESS, type GrantAccess, ROLES, type Role } from "../../src/store/schema.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

const all = { read: true, send: true, manage: true };
const ofGrant: Record<GrantAccess, Access> = {
  view: { read: true, send: false, manage: false },
  send: { read: true, send: true, manage: false },
  full: all,
};

const thrownBy = (act: () => void): unknown => {
  try {
    act();
    return undefined;
  } catch (error) {
    return error;
  }
};

describe("reach", () => {
  for (const role of ROLES) {
    for (const grant of [undefined, ...GRANT_ACCESS]) {
      for (const own of [false, true]) {
        test(`${role}, ${grant ?? "no"} grant, ${own ? "own" : "another's"} mailbox`, () => {
          const world = createWorld();
          const workspaceId = world.workspace("W", "example.test");
          const caller = world.user(workspaceId, "caller@example.test", role);
          const other = world.user(workspaceId, "other@example.test", "member");
          const id = world.box(workspaceId, "box@example.test", own ? caller : other);
          if (grant) world.grant(id, caller, grant);

          const expected: Pick<Reach, "source" | "access"> | undefined = own
            ? { source: "owner", access: all }
            : role !== "member"
              ? { source: "admin", access: all }
              : grant && { source: "grant", access: ofGrant[grant] };
          const reach = findReach(world.store.db, caller, id);
          expect(reach && { source: reach.source, access: reach.access }).toEqual(expected);
          expect(findReachableMailboxes(world.store.db, caller).get(id)).toEqual(reach);
          if (reach) expect(reach.mailbox).toMatchObject({ id, address: "box@example.test", workspaceId });
        });
      }
    }
  }

  test("never leaves the workspace, for any role, ownership and grant", () => {
    const world = createWorld();
    const here = world.workspace("Here", "here.test");
    const there = world.workspace("There", "there.test");
    for (const role of ROLES) {
      const caller = world.user(here, `${role}@here.test`, role);
      const granted = world.box(there, `${role}-granted@there.test`);
      const owned = world.box(there, `${role}-owned@there.test`, caller);
      world.grant(granted, caller, "full");
      expect(findReach(world.store.db, caller, granted)).toBeUndefined();
      expect(findReach(world.store.db, caller, owned)).toBeUndefined();
      expect([...findReachableMailboxes(world.store.db, caller).keys()]).toEqual([]);
    }
  });

  test("follows the caller's current role", () => {
    const world = createWorld();
    const workspaceId = world.workspace("W", "example.test");
    const caller = world.user(workspaceId, "caller@example.test", "admin");
    const id = world.box(workspaceId, "box@example.test");
    const as = (role: Role): Caller => ({ ...caller, role });
    expect(findReach(world.store.db, as("admin"), id)?.source).toBe("admin");
    expect(findReach(world.store.db, as("member"), id)).toBeUndefined();
  });

  test("lists mailboxes in the order of their addresses", () => {
    const world = createWorld();
    const workspaceId = world.workspace("W", "example.test");
    const caller = world.user(workspaceId, "caller@example.test", "owner");
    for (const name of ["m", "a", "z"]) world.box(workspaceId, `${name}@example.test`);
    expect([...findReachableMailboxes(world.store.db, caller).values()].map(({ mailbox }) => mailbox.address)).toEqual([
      "a@example.test",
      "m@example.test",
      "z@example.test",
    ]);
  });
});

describe("refusals", () => {
  const reach = (access: Access): Reach => ({
    mailbox: { id: "mbx_1", address: "a@example.test", name: "A", ownerId: null, workspaceId: "wsp_1" },
    source: "grant",
    access,
  });

  for (const [grant, access] of Object.entries(ofGrant)) {
    for (const wanted of ["read", "send", "manage"] as const) {
      test(`${grant}: ${wanted} is ${access[wanted] ? "allowed" : "forbidden"}`, () => {
        const error = thrownBy(() => requireAccess(reach(access), wanted));
        if (access[wanted]) expect(error).toBeUndefined();
        else expect(error).toMatchObject({ code: "forbidden", status: 403 });
      });
    }
  }

  test("a key without the scope: missing_scope, naming it", () => {
    const caller: Caller = {
      userId: "usr_1",
      workspaceId: "wsp_1",
      role: "owner",
      email: "a@example.test",
      scopes: new Set(["read"]),
    };
    expect(thrownBy(() => requireScope(caller, "read"))).toBeUndefined();
    const error = thrownBy(() => requireScope(caller, "write"));
    expect(error).toMatchObject({ code: "missing_scope", status: 403 });
    expect((error as AppError).message).toContain('"write"');
  });

  test("an unknown id is not_found", () => {
    expect(outOfReachError("thread")).toMatchObject({ code: "not_found", status: 404 });
  });
});
