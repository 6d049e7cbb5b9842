/**
 * The API as a server of its own, over real sockets: a store in memory, the mailbox, the gate and the routes, on a clock
 * that only tests move. Olga owns the one workspace. Max is a member with a view-only share of Olga's mailbox.
 */
import { afterEach } from "bun:test";
import { connect } from "node:net";
import { createApiKey, createLastUseRecorder, noteKeyUse } from "../../../src/access/credentials.ts";
import { createSlowdown } from "../../../src/access/slowdown.ts";
import { createApi } from "../../../src/api/api.ts";
import { createRequestShares } from "../../../src/api/pools.ts";
import { createClientAddressReader } from "../../../src/api/request.ts";
import { MAIL_API } from "../../../src/api/surfaces.ts";
import { extractText } from "../../../src/documents/document-text.ts";
import type { ReadDocument } from "../../../src/documents/kind.ts";
import { createHttpConnections } from "../../../src/http/connections.ts";
import { createHttpServer } from "../../../src/http/http-server.ts";
import { createReadJournal } from "../../../src/journal/reads.ts";
import { fileMessage } from "../../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../../src/mailbox/filing/prepare.ts";
import { createIdempotency } from "../../../src/operations/idempotency.ts";
import type { Operation } from "../../../src/operations/operation.ts";
import { readMessageSource } from "../../../src/smtp/spool.ts";
import * as schema from "../../../src/store/schema.ts";
import { openInMemory, sendCore } from "./core.ts";

export interface Answer {
  status: number;
  headers: Headers;
  /** The JSON of the response; empty when it is not JSON. */
  body: Record<string, unknown>;
  text: string;
}

const running: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

interface Given {
  operations?: readonly Operation[];
  /** Replaces what operations of mail do, by name. */
  runs?: Readonly<Record<string, (context: never, input: never) => unknown>>;
  trustedProxies?: string[];
  settings?: Record<string, string>;
}

/** Starts the API, which stops when the test ends. Rates are high unless `settings` says otherwise. */
export async function startApi(given: Given = {}) {
  const { operations = MAIL_API.operations, runs = {}, trustedProxies, settings } = given;
  const opened = openInMemory({
    MAILROOM_HOSTNAME: "mail.example.test",
    MAILROOM_BASE_URL: "http://mail.example.test",
    MAILROOM_LOG: "debug",
  });
  const sending = sendCore(opened.core);
  const readDocument: ReadDocument = async (_, source, __, hints) =>
    extractText(new Uint8Array(await readMessageSource(source)), hints, sending.now);
  const core = { ...sending, parser: { ...sending.parser, readDocument } };
  const { store, options, runtime, log, lines } = core;
  const idempotency = createIdempotency(core);
  const pools = createRequestShares({ mostConnections: 1_000, runtime });
  const api = createApi({
    core,
    idempotency,
    reads: createReadJournal(core),
    pools,
    slowdown: createSlowdown(runtime),
    touchKey: createLastUseRecorder(core, "a key", noteKeyUse),
    readClientAddress: createClientAddressReader(trustedProxies ?? []),
    operations: operations.map((one) => ({ ...one, run: runs[one.name] ?? one.run })),
  });
  const server = createHttpServer({
    listen: { host: "127.0.0.1", port: 0 },
    connections: createHttpConnections({ most: 1_000, trustedProxies: [], runtime }),
    rest: api.rest,
    web: { respond: async () => undefined },
    health: { store: () => true },
    pools,
    runtime,
    log,
  });
  running.push(async () => {
    await api.stop();
    await server.stop(0);
    store.close();
  });

  const set = (name: string, value: string) => store.transact((tx) => options.set(tx, name, value));
  const outOfTheWay = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };
  for (const [name, value] of Object.entries(settings ?? outOfTheWay)) set(name, value);

  const now = runtime.now();
  const mailboxRow = (id: string, address: string, ownerId: string) => {
    store.db
      .insert(schema.mailboxes)
      .values({ id, workspaceId: "wsp_1", address, name: id, ownerId, createdAt: now })
      .run();
    store.db
      .insert(schema.addresses)
      .values({ address, mailboxId: id, domainId: "dom_1", kind: "primary", createdAt: now })
      .run();
  };
  store.transact((tx) => {
    tx.insert(schema.workspaces).values({ id: "wsp_1", name: "Example", createdAt: now }).run();
    tx.insert(schema.domains)
      .values({ id: "dom_1", workspaceId: "wsp_1", name: "example.test", ownershipToken: "x", createdAt: now })
      .run();
    for (const [id, role] of [
      ["olga", "owner"],
      ["max", "member"],
    ] as const) {
      const email = `${id}@example.test`;
      tx.insert(schema.users).values({ id, workspaceId: "wsp_1", email, name: id, role, createdAt: now }).run();
      mailboxRow(`mbx_${id}`, email, id);
    }
    tx.insert(schema.grants).values({ mailboxId: "mbx_olga", userId: "max", access: "view" }).run();
  });

  const keyOf = (userId: string, scopes: schema.Scope[] = ["read", "send", "write"]): string =>
    store.transact((tx) => createApiKey(tx, runtime, { userId, name: "test", scopes })).key;
  const key = keyOf("olga");
  const origin = `http://127.0.0.1:${server.address.port}`;

  /** Sends a request, with Olga's key unless `authorization` is given. `path` is below /api/v1, unless it begins with /api. */
  async function ask(path: string, init: { method?: string; headers?: Record<string, string>; body?: unknown } = {}) {
    const { authorization = `Bearer ${key}`, ...headers } = init.headers ?? {};
    const isText = typeof init.body === "string" || init.body instanceof Uint8Array || init.body === undefined;
    const response = await fetch(origin + (path.startsWith("/api") ? path : MAIL_API.prefix + path), {
      method: init.method ?? "GET",
      headers: {
        ...(authorization !== "" && { authorization }),
        ...(!isText && { "content-type": "application/json" }),
        ...headers,
      },
      ...(init.body !== undefined && { body: isText ? (init.body as string) : JSON.stringify(init.body) }),
    });
    const text = await response.text();
    const isJson = /^application\/json/.test(response.headers.get("content-type") ?? "") && text !== "";
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : {}, text } as Answer;
  }

  /** Files a message into a mailbox, by default Olga's. Lines may end in LF. */
  async function file(message: string | Uint8Array, mailboxId = "mbx_olga") {
    const bytes = typeof message === "string" ? Buffer.from(message.replaceAll(/\r?\n/g, "\r\n")) : message;
    const prepared = await prepareMessage(bytes, store.blobs);
    const receivedOn = `${mailboxId.slice(4)}@example.test`;
    return store.transact((tx) =>
      fileMessage(core, tx, { mailboxId, receivedOn, message: prepared, now: runtime.now() }),
    );
  }

  /** Sends bytes unchanged and reads until the server closes, so the request needs `Connection: close`. */
  const raw = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let received = "";
      const socket = connect(server.address.port, "127.0.0.1", () => socket.write(text, "latin1"));
      socket.setEncoding("latin1");
      socket.on("data", (chunk) => {
        received += chunk;
      });
      socket.on("close", () => resolve(received));
      socket.on("error", reject);
    });

  return {
    core,
    origin,
    runtime,
    store,
    options,
    set,
    server,
    lines,
    key,
    keyOf,
    ask,
    file,
    raw,
    idempotency,
    stopApi: api.stop,
  };
}

export type TestApi = Awaited<ReturnType<typeof startApi>>;
