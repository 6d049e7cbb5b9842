/** A standby in the test's process, which reads the database of an appliance that ran before. */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { StandbyRefusal } from "../../../src/base/errors.ts";
import { createLog } from "../../../src/base/log.ts";
import { open } from "../../../src/open.ts";
import type { StandbyState } from "../../../src/replica/follow-replica.ts";
import { type Ready, serve } from "../../../src/serve.ts";
import { openReadOnlyStore, type ReadOnlyStore } from "../../../src/store/read-only.ts";
import { apiClient, type Client } from "../clients/api.ts";
import { atEndOfFile } from "../end.ts";
import type { FakeRuntime } from "../runtime.ts";
import type { Booted } from "./boot.ts";
import { shareParser } from "./parser.ts";

export interface BootedStandby {
  /** `http://host:port` */
  http: string;
  ready: Ready;
  /** The database, in which the server's changes appear. */
  file: string;
  store: ReadOnlyStore;
  apiWith(key?: string): Client;
  runtime: FakeRuntime;
  lines: Record<string, unknown>[];
  stop(): Promise<void>;
}

/** Stops the server, which has its database in a file, and reads that with the server's clock. */
export async function followStopped(booted: Booted, state: () => StandbyState = () => ({})): Promise<BootedStandby> {
  const { opened, server, runtime } = booted;
  const { config } = opened;
  await server.stop(0);
  const file = join(config.data, "followed.db");
  const writer = new Database(join(config.data, "mailroom.db"));
  writer.run("VACUUM INTO ?", [file]);
  writer.close();
  const lines: Record<string, unknown>[] = [];
  const log = createLog("info", runtime.now, (line) => lines.push(JSON.parse(line)));
  const refusal = () => new StandbyRefusal("This is a standby: the server is https://mail.example.test");
  const store = openReadOnlyStore({ folder: config.data, s3: undefined, file, refusal, runtime, log });
  const following = { store, state, unreadable: () => undefined };
  const standby = await serve(open(config, runtime, log, { following, doctor: { checks: {} } }), {
    startParser: shareParser,
  });
  const { ready } = standby;
  const stop = () => standby.stop(0);
  atEndOfFile(stop);
  return {
    http: `http://${ready.http}`,
    ready,
    file,
    store,
    apiWith: (key) => apiClient(`http://${ready.http}`, key),
    runtime,
    lines,
    stop,
  };
}
