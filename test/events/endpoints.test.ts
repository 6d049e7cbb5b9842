/** The notice about an endpoint that the server disabled: each workspace gets its own, even if another's fails. */
import { expect, test } from "bun:test";
import {
  endpointsToTell,
  putEndpoint,
  requireEndpoint,
  setEndpointDisabled,
  setEndpointEnabled,
  tellDisabledEndpoints,
} from "../../src/events/endpoints.ts";
import { START } from "../harness/runtime.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

function setUp(notify: (workspaceId: string) => Promise<void>) {
  const { core, store, workspace } = createWorld();
  const told: { workspaceId: string; text: string }[] = [];
  const site = { ...core.site, baseUrl: "https://mail.example.test" };
  const job = tellDisabledEndpoints({ ...core, site }, async ({ workspaceId, text }, record) => {
    await notify(workspaceId);
    store.transact((tx) => record(tx));
    told.push({ workspaceId, text });
  });
  const workspaces = ["a.test", "b.test"].map((domain, i) => {
    const workspaceId = workspace(`W${i}`, domain);
    store.transact((tx) => {
      const url = `https://${domain}/hook`;
      putEndpoint(tx, { id: `whk_${i}`, workspaceId, url, events: ["message.inbound"], secret: "whsec_", now: START });
      setEndpointDisabled(tx, requireEndpoint(tx, `whk_${i}`), START, true);
    });
    return workspaceId;
  });
  return { store, told, job, workspaces };
}

test("a notice that cannot be written is tried again and does not hold up other workspaces", async () => {
  let broken: string | undefined;
  const { store, told, job, workspaces } = setUp(async (workspaceId) => {
    if (workspaceId === broken) throw new Error("the key of its domain does not work");
  });
  broken = workspaces[0];
  await expect(Promise.resolve(job.runDue(START))).rejects.toThrow("does not work");
  expect(told.map(({ workspaceId }) => workspaceId)).toEqual(workspaces.slice(1));
  expect(endpointsToTell(store.db).map(({ id }) => id)).toEqual(["whk_0"]);
  broken = undefined;
  expect(await job.runDue(START)).toBeNull();
  expect(told.map(({ workspaceId }) => workspaceId)).toEqual([...workspaces].reverse());
  await job.runDue(START);
  expect(told).toHaveLength(2);
});

test("the notice says when the endpoint was enabled again before the mail was written", async () => {
  const { store, told, job } = setUp(async () => {});
  store.transact((tx) => setEndpointEnabled(tx, requireEndpoint(tx, "whk_0")));
  await job.runDue(START);
  expect(told[0]?.text).toContain("It has been switched on again since");
  expect(told[0]?.text).not.toContain("1970");
  expect(told[1]?.text).toContain("was switched off on Mon, 05 Jan 2026 09:00:00 GMT");
});
