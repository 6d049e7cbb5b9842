/**
 * The doctor in the settings: its rights, one examination at a time, its progress, and its regular examinations. Alice owns the
 * first workspace, Ann is an admin there, Bob a member; Zoe owns the second.
 */
import { beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as domains from "../../src/admin/domains.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import type { Finding, World } from "../../src/doctor/check.ts";
import type { AnswerOf } from "../../src/operations/operation.ts";
import type { getFindings } from "../../src/operations/operator/server-settings.ts";
import type { Role } from "../../src/store/schema.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { START } from "../harness/runtime.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

type DoctorView = AnswerOf<typeof getFindings>;

const DAY_MS = 24 * 3_600_000;
/** Time from the start to the first regular examination. */
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
/** Counts the examinations of the disk. */
let looks = 0;
/** Holds the examination of outgoing connections until it resolves. */
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
  const { core } = booted.opened;
  const { store } = core;
  const other = store.transact((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Other");
    domains.addDomain(core, tx, id, "other.test", []);
    return id;
  });
  const add = async (workspaceId: string, email: string, role: Role) => {
    const person = { workspaceId, email, name: email, role, ownMailbox: true };
    await setPassword(booted, store.transact((tx) => people.addUser(core, tx, person)).userId);
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

test.each(["bob", "zoe"])(
  "%s, who does not run the server, sees no findings and starts no examination",
  async (name) => {
    const before = looks;
    expect((await pageOf(name).get("/settings/doctor")).status).toBe(403);
    expect((await look(name)).status).toBe(403);
    expect(looks).toBe(before);
  },
);

test("an examination shows its progress, and serves all requests that come meanwhile", async () => {
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

test("the findings of a regular examination are kept with their time, beside later ones", async () => {
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

test("an examination that cannot learn whether a server runs ends, and the server goes on", async () => {
  const folder = temporaryFolder();
  const queue = ({ serving }: World): Finding[] => [{ ...slow, detail: String(serving) }];
  const fresh = await boot({ MAILROOM_DATA: folder }, undefined, { checks: { disk: () => [slow], queue } });
  await setPassword(fresh, fresh.owner.userId);
  const alice = await signIn(fresh, "alice@example.test");
  // No database can be opened there, as when the process has no file descriptors left.
  const lock = join(folder, "serving.lock");
  rmSync(lock);
  mkdirSync(lock);
  expect((await alice.send("POST", "/settings/doctor")).status).toBe(202);
  const { body } = await alice.get<DoctorView>("/settings/doctor");
  expect(body.running).toBeNull();
  expect(body.last?.findings).toMatchObject([slow, { name: 'The check "queue"', state: "unknown" }]);
});
