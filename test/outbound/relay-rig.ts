/** A relay before remote servers that do as the test says, without sockets, on a clock that the test moves. */
import { createLog } from "../../src/base/log.ts";
import { createMemoryRoom } from "../../src/base/memory.ts";
import { createScheduler } from "../../src/base/scheduler.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { createRelay } from "../../src/outbound/relay.ts";
import type { SendCore } from "../../src/outbound/send-core.ts";
import type { Connection } from "../../src/outbound/transport.ts";
import { DeliveryFailure, type DeliveryResult } from "../../src/smtp/delivery-result.ts";
import { addresses, domains, mailboxes, workspaces } from "../../src/store/schema.ts";
import { openOptions } from "../../src/store/settings.ts";
import type { Store } from "../../src/store/store.ts";
import type { ParserPool } from "../../src/workers/parser-pool.ts";
import { coreOver, sendCore } from "../harness/servers/core.ts";
import { until } from "../harness/until.ts";
import { createQueue } from "./queue-rig.ts";

const CODES = { accepted: 250, deferred: 450, refused: 550 } as const;

const result = (kind: DeliveryResult["kind"]): DeliveryResult => ({
  kind,
  reply: `${CODES[kind]} ${kind}`,
  hard: false,
});

/** A transaction, as the server saw it. */
export interface Sent {
  destination: string;
  recipients: readonly string[];
  /** Number of the connection, from 1. */
  connection: number;
  content: string;
}

/** Behaviour of the servers. By default they accept everything at once. */
export interface Script {
  /** Called before a connection opens. An error fails it. `nth`: number of the connection to that destination, from 1. */
  connect?(destination: string, nth: number): unknown;
  /** Gives the result of a transaction, by default acceptance. `nth`: number of the transaction, from 1. */
  send?(sent: Sent, nth: number): DeliveryResult["kind"] | Promise<DeliveryResult["kind"] | undefined> | undefined;
  /** True when a running transaction must not be cut any more. */
  transmits?(destination: string): boolean;
  /** True when the connection can be used again after a transaction. */
  keeps?(destination: string): boolean;
}

export const unreachable = (kind: "deferred" | "refused" = "deferred"): DeliveryFailure =>
  new DeliveryFailure({ ...result(kind), reply: `${kind}: no connection` });

interface RigOptions {
  script?: Script;
  hold?: boolean;
  /** There is a smarthost. */
  grouped?: boolean;
  /** Functions of the store that differ. */
  enqueue?: (store: Store) => Store["enqueue"];
  queue?: ReturnType<typeof createQueue>;
  /** Room for large messages that leave. */
  mostBytesAway?: number;
}

/** The domains of this server: that of the sender, and two with recipients. */
const HERE = ["example.test", "here.example", "also.here.example"];

/** The first wait after a temporary failure, by default. */
export const FIRST_RETRY_MS = 60_000;

export function createRelayRig({ script = {}, hold = false, grouped = false, ...given }: RigOptions = {}) {
  const queue = given.queue ?? createQueue();
  const { store, runtime } = queue;
  if (store.db.select().from(workspaces).all().length === 0) {
    store.db.insert(workspaces).values({ id: "wsp_1", name: "One", createdAt: 0 }).run();
    for (const name of HERE) {
      store.db
        .insert(domains)
        .values({ id: name, workspaceId: "wsp_1", name, ownershipToken: "", verifiedAt: 0, createdAt: 0 })
        .run();
    }
    const box = { id: "mbx_1", workspaceId: "wsp_1", address: "alice@example.test", name: "Alice", createdAt: 0 };
    store.db.insert(mailboxes).values(box).run();
    const at = { mailboxId: box.id, createdAt: 0 };
    store.db
      .insert(addresses)
      .values([
        { ...at, address: "*@here.example", domainId: "here.example", kind: "catch-all" },
        { ...at, address: "di@also.here.example", domainId: "also.here.example", kind: "alias" },
      ])
      .run();
  }
  const lines: Record<string, unknown>[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  const options = openOptions(store);
  const sent: Sent[] = [];
  const connections: { destination: string; open: boolean }[] = [];
  let activity = 0;
  store.onCommit(() => activity++);
  const state = { script, grouped };

  async function connect(domain: string, signal?: AbortSignal): Promise<Connection> {
    activity++;
    const aborted = Promise.withResolvers<never>();
    aborted.promise.catch(() => {});
    signal?.addEventListener("abort", () => {
      activity++;
      connection.open = false;
      aborted.reject(new DeliveryFailure({ ...result("deferred"), reply: `deferred: ${signal.reason}` }));
    });
    const destination = state.grouped ? "smarthost" : domain;
    const connection = { destination, open: true };
    const number = connections.push(connection);
    const nth = connections.filter((each) => each.destination === destination).length;
    try {
      await Promise.race([state.script.connect?.(destination, nth), aborted.promise]);
    } catch (error) {
      connection.open = false;
      throw error;
    }
    return {
      remote: `mx.${destination}`,
      usable: () => connection.open,
      isTransmitting: () => state.script.transmits?.(destination) ?? false,
      close() {
        connection.open = false;
      },
      async send({ recipients, content }) {
        activity++;
        const transaction = { destination, recipients, connection: number, content: new TextDecoder().decode(content) };
        const nth = sent.push(transaction);
        const answer = Promise.resolve(state.script.send?.(transaction, nth));
        const kind = (await Promise.race([answer, aborted.promise.catch(() => "deferred" as const)])) ?? "accepted";
        if (state.script.keeps?.(destination) === false) connection.open = false;
        activity++;
        return recipients.map(() => result(kind));
      },
    };
  }

  const scheduler = createScheduler(runtime, log);
  const base = sendCore({ ...coreOver(store, runtime), log, options });
  const parser: ParserPool = {
    ...base.parser,
    async prepare(_, content) {
      activity++;
      return prepareMessage(content as Uint8Array, store.blobs);
    },
  };
  const core: SendCore = {
    ...base,
    parser,
    store: { ...store, enqueue: given.enqueue?.(store) ?? store.enqueue },
    transport: { ...base.transport, connect, groupsByMessage: () => state.grouped, close: () => {} },
    wake: (job) => queueMicrotask(() => scheduler.wake(job)),
  };
  const relay = createRelay(core, {
    hold,
    rooms: { here: createMemoryRoom(), away: createMemoryRoom(given.mostBytesAway) },
  });
  scheduler.add([relay.job]);

  /** Runs everything that does not wait for a gate or the clock. */
  async function quiet(): Promise<void> {
    for (let turns = 0, seen = activity; turns < 10; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (activity !== seen) [turns, seen] = [0, activity];
    }
  }

  return {
    ...queue,
    core,
    relay,
    sent,
    connections,
    lines,
    /** Changes the behaviour of the servers, or the smarthost. */
    state,
    options,
    start: () => scheduler.start(),
    wake: () => scheduler.wake("relay"),
    quiet,
    /** Waits for the file system. */
    until,
    /** Starts the relay, or makes it look again, and waits until it is idle. */
    async run(): Promise<void> {
      scheduler.start();
      await quiet();
    },
    async advance(ms: number): Promise<void> {
      runtime.advanceTo(runtime.now() + ms);
      await quiet();
    },
    /** State, attempts and reply of each entry, in order. */
    outcomes: () => queue.entries().map(({ state, attempts, reply }) => [state, attempts, reply]),
    states: () => queue.entries().map(({ state }) => state),
    /** All recipients of transactions, in order. */
    recipients: () => sent.flatMap(({ recipients }) => recipients),
    errors: () => lines.filter(({ level }) => level === "error").map(({ message }) => message),
  };
}
