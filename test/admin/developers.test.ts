import { expect, test } from "bun:test";
import { findCaller } from "../../src/access/credentials.ts";
import * as developers from "../../src/admin/developers.ts";
import { openOffice } from "../harness/servers/admin-office.ts";

test("a key is created, listed without its value, and revoked once", () => {
  const { core, store, write, acme, beta, ada } = openOffice();
  const { id, key } = write((tx) => developers.createKey(core, tx, { userId: ada, name: " CI ", scopes: ["read"] }));
  expect(key).toMatch(/^mr_[A-Za-z0-9]{40,}$/);
  expect(findCaller(store.db, key)).toMatchObject({ userId: ada });
  const [listed] = developers.listKeys(core, acme);
  expect(listed).toMatchObject({ id, name: "CI", userEmail: "ada@acme.test", scopes: ["read"], revokedAt: null });
  expect(JSON.stringify(listed)).not.toContain(key);
  expect(developers.listKeys(core, beta)).toEqual([]);

  expect(() => write((tx) => developers.revokeKey(core, tx, id, beta))).toThrow(`there is no key ${id}`);
  write((tx) => developers.revokeKey(core, tx, id, acme));
  expect(findCaller(store.db, key)).toBeUndefined();
  expect(() => write((tx) => developers.revokeKey(core, tx, id))).toThrow(/revoked before/);
  expect(developers.listKeys(core, acme)[0]?.revokedAt).toBeNumber();
});

test("a key needs a name", () => {
  const { core, write, ada } = openOffice();
  expect(() => write((tx) => developers.createKey(core, tx, { userId: ada, name: "", scopes: ["read"] }))).toThrow(
    /give the key a name/,
  );
});

test("a key that administers is for owners and admins", () => {
  const { core, write, acme, addUser, ada } = openOffice();
  const create = (userId: string) =>
    write((tx) => developers.createKey(core, tx, { userId, name: "Admin", scopes: ["admin"] })).id;
  expect(create(ada)).toStartWith("key_");
  expect(create(addUser(acme, "ann@acme.test", "admin").userId)).toStartWith("key_");
  const max = addUser(acme, "max@acme.test", "member").userId;
  expect(() => create(max)).toThrow("the scope admin is for owners and admins: max@acme.test is a member");
});
