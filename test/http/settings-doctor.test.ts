/**
 * The doctor in the settings: who may ask it, that it looks once however often it is asked meanwhile, how far it is, and
 * what it found by itself. Alice owns the first workspace, Ann is an admin there, Bob a member; Zoe owns the second.
 */
import { beforeAll, expect, test } from "bun:test";
import type { Finding } from "../../src/doctor/check.ts";
import type { DoctorView } from "../../src/http/admin-views.ts";
import type { Role } from "../../src/store/schema.ts";
import { type Booted, boot } from "../harness/appliance.ts";
import { type Page, setPassword, signIn } from "../harness/browser-session.ts";
import { START } from "../harness/runtime.ts";

const DAY_MS = 24 * 3_600_000;
/** From the start until it looks by itself. */
const FIRST_MS = 15 * 60_000;
const disk = (state: Finding["state"]): Finding => ({
  id: "disk",
  name: "Disk space",
  state,
  detail: `it is ${state}`,
});
const slow: Finding = { id: "outbound", name: "Outbound mail", state: "ok", detail: "it goes out" };

let booted: Booted;
let state: Finding["state"] = "ok";
/** How often the disk was looked at. */
let looks = 0;
/** Whoever looks at the way out waits until it is let go. */
let answer = Promise.withResolvers<Finding[]>();
const pages: Record<string, Page> = {};

beforeAll(async () => {
  answer.resolve([slow]);
  booted = await boot({}, undefined, {
    checks: {
      disk: () => {
        looks++;
        return [disk(state)];
      },
      outbound: () => answer.promise,
    },
  });
  const { people, domains, store } = booted.appliance;
  const other = store.transact((tx) => {
    const { id } = people.addWorkspace(tx, "Other");
    domains.addDomain(tx, id, "other.test", []);
    return id;
  });
  const add = async (workspaceId: string, email: string, role: Role) => {
    const person = { workspaceId, email, name: email, role, ownMailbox: true };
    await setPassword(booted, store.transact((tx) => people.addUser(tx, person)).userId);
  };
  await setPassword(booted, booted.owner.userId);
  await add(booted.owner.workspaceId, "ann@example.test", "admin");
  await add(booted.owner.workspaceId, "bob@example.test", "member");
  await add(other, "zoe@other.test", "owner");
  for (const email of ["alice@example.test", "ann@example.test", "bob@example.test", "zoe@other.test"]) {
    pages[email.split("@")[0] ?? ""] = await signIn(booted, email);
  }
});

const pageOf = (name: string): Page => pages[name] as Page;
const known = async (name = "alice"): Promise<DoctorView> =>
  (await pageOf(name).get<DoctorView>("/settings/doctor")).body;
const look = (name = "alice") => pageOf(name).send<DoctorView>("POST", "/settings/doctor");
const ended = async (): Promise<DoctorView> => {
  for (;;) {
    const view = await known();
    if (view.running === null) return view;
  }
};

test.each(["bob", "zoe"])("%s, who does not run the server, is neither told nor obeyed", async (name) => {
  const before = looks;
  expect((await pageOf(name).get("/settings/doctor")).status).toBe(403);
  expect((await look(name)).status).toBe(403);
  expect(looks).toBe(before);
});

test("asked, it looks, says how far it is, and looks once for all who ask meanwhile", async () => {
  expect(await known()).toEqual({ running: null, last: null, daily: null });
  answer = Promise.withResolvers();
  const before = looks;
  const begun = await look();
  expect([begun.status, begun.body.last]).toEqual([202, null]);
  expect((await known()).running).toEqual({ checks: 2, waitingFor: ["outbound"] });
  expect((await look("ann")).body.running).toEqual({ checks: 2, waitingFor: ["outbound"] });
  expect(looks).toBe(before + 1);
  answer.resolve([slow]);
  expect(await ended()).toEqual({
    running: null,
    last: { at: new Date(booted.runtime.now()).toISOString(), findings: [disk("ok"), slow] },
    daily: null,
  });
  await look();
  await ended();
  expect(looks).toBe(before + 2);
});

test("what it finds by itself is kept with its time, and told beside what was found since", async () => {
  state = "warning";
  await booted.advance(3_600_000);
  const first = new Date(START + FIRST_MS).toISOString();
  expect((await known()).daily).toEqual({ at: first, findings: [disk("warning"), slow] });
  state = "bad";
  await booted.advance(3_600_000);
  await look();
  const { last, daily } = await ended();
  expect(last?.findings).toEqual([disk("bad"), slow]);
  expect(daily?.findings).toEqual([disk("warning"), slow]);
  await booted.advance(DAY_MS);
  expect((await known()).daily?.findings).toEqual([disk("bad"), slow]);
});
