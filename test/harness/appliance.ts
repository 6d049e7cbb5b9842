/** A whole appliance inside the test's process: database in memory, fake clock, real sockets on free ports. */
import { afterAll } from "bun:test";
import { type Appliance, createAppliance } from "../../src/appliance.ts";
import { readConfig } from "../../src/config.ts";
import { createLog } from "../../src/log.ts";
import { SCOPES } from "../../src/store/schema.ts";
import { apiClient, type Client } from "./api.ts";
import { temporaryFolder } from "./folder.ts";
import { type FakeRuntime, fakeRuntime } from "./runtime.ts";

export interface Booted {
  appliance: Appliance;
  runtime: FakeRuntime;
  /** Workspace and owner alice@example.test, with a key of all scopes; rates are out of the way. */
  owner: { workspaceId: string; userId: string; mailboxId: string; apiKey: string };
  /** The API with the owner's key. */
  api: Client;
  /** The API with another key, or none. */
  apiWith(key?: string): Client;
  mx: { host: string; port: number };
  /** `http://host:port` */
  http: string;
  /** Log lines so far. */
  lines: Record<string, unknown>[];
  /** Moves the clock, runs what falls due, and waits for it. */
  advance(ms: number): Promise<void>;
}

const running = new Set<Appliance>();
afterAll(async () => {
  await Promise.all([...running].map((appliance) => appliance.stop(0)));
  running.clear();
});

export async function boot(env: Record<string, string> = {}): Promise<Booted> {
  const runtime = fakeRuntime();
  const lines: Record<string, unknown>[] = [];
  const config = readConfig({
    MAILROOM_DATA: temporaryFolder(),
    MAILROOM_HTTP: "127.0.0.1:0",
    MAILROOM_MX: "127.0.0.1:0",
    ...env,
  });
  const log = createLog("info", runtime.now, (line) => lines.push(JSON.parse(line)));
  const appliance = createAppliance(config, runtime, log, { file: ":memory:" });
  running.add(appliance);
  const { people, domains, developers } = appliance;
  const owner = appliance.store.transact((tx) => {
    const { id: workspaceId } = people.addWorkspace(tx, "Example");
    domains.addDomain(tx, workspaceId, "example.test", []);
    const alice = { workspaceId, email: "alice@example.test", name: "Alice", role: "owner", ownMailbox: true } as const;
    const { userId, mailboxId = "" } = people.addUser(tx, alice);
    const { key: apiKey } = developers.createKey(tx, { userId, name: "Tests", scopes: SCOPES });
    return { workspaceId, userId, mailboxId, apiKey };
  });
  appliance.store.transact((tx) => {
    appliance.options.set(tx, "api.ipRequestsPerMinute", "1000000");
    appliance.options.set(tx, "api.keyRequestsPerMinute", "1000000");
  });
  const ready = await appliance.start();
  const [host = "", port = ""] = ready.mx.split(":");
  const apiWith = (key?: string): Client => apiClient(`http://${ready.http}`, key);
  return {
    appliance,
    runtime,
    owner,
    api: apiWith(owner.apiKey),
    apiWith,
    mx: { host, port: Number(port) },
    http: `http://${ready.http}`,
    lines,
    async advance(ms) {
      runtime.advanceTo(runtime.now() + ms);
      await appliance.settled();
    },
  };
}
