/**
 * The standby as a server: a server that reads what replica/follow-replica.ts follows. Until that can be read for the first
 * time, the listeners refuse every request with the reason.
 */
import { createRequestShares } from "./api/pools.ts";
import { limitOfOpenFiles, shareDescriptors } from "./base/descriptors.ts";
import { type AppError, unavailable } from "./base/errors.ts";
import type { Log } from "./base/log.ts";
import type { Runtime } from "./base/runtime.ts";
import type { Config } from "./config.ts";
import type { HttpServer } from "./http/carrier.ts";
import { createHttpConnections } from "./http/connections.ts";
import { startHttp } from "./http/http-server.ts";
import { type Opened, open } from "./open.ts";
import { publicStandbyState, type Standby } from "./replica/follow-replica.ts";
import { bindListener, type Ready, type Server, serve } from "./serve.ts";
import { openReadOnlyStore, type ReadOnlyStore } from "./store/read-only.ts";
import { openS3Blobs } from "./store/s3-blobs.ts";
import { openCertificates } from "./tls/certificates.ts";

/** A refused request may come again after a look at the replica, in seconds: see `unavailable`. */
const refusalFor = (reason: string): AppError => unavailable(`This standby cannot be read: ${reason}`);

export interface StandbyServer {
  /** Resolves once it can be read; never, when it is stopped before. */
  readonly ready: Promise<Ready>;
  stop(graceMs?: number): Promise<void>;
  /** Reads the operator's certificate again. */
  reload(): void;
}

/** @throws Error with the variable of a listener that cannot bind */
export async function startStandby(parts: {
  config: Config;
  standby: Standby;
  runtime: Runtime;
  log: Log;
}): Promise<StandbyServer> {
  const { config, standby, runtime, log } = parts;
  const ready = Promise.withResolvers<Ready>();
  let waiting: { stop(graceMs: number): Promise<void> } | undefined;
  let server: Server | undefined;
  let store: ReadOnlyStore | undefined;
  let read: string | undefined;
  /** The change under way, which the next one waits for. */
  let turn = Promise.resolve();

  function unreadable(): AppError | undefined {
    const reason = standby.reason();
    return reason === undefined ? undefined : refusalFor(reason);
  }

  function openAt(file: string): Opened {
    read = file;
    const s3 = config.blobs && openS3Blobs(config.blobs, runtime);
    store = openReadOnlyStore({ folder: config.data, s3, file, refusal: standby.refusal, runtime, log });
    return open(config, runtime, log, { following: { store, state: standby.state, unreadable } });
  }

  /** Opens another database at once: the file that was read before is removed after this. */
  function changed(): void {
    const file = standby.database();
    if (file === undefined || file === read) return;
    if (store) {
      store.follow(file);
      read = file;
      return;
    }
    turn = Promise.try(openAt, file)
      .then(async (opened) => {
        await waiting?.stop(0);
        waiting = undefined;
        server = await serve(opened);
        ready.resolve(server.ready);
      })
      .catch(ready.reject);
  }

  waiting = await listenMeanwhile({ ...parts, unreadable });
  standby.onChange(changed);
  changed();
  return {
    ready: ready.promise,
    reload: () => server?.reload(),
    async stop(graceMs) {
      await turn;
      await waiting?.stop(0);
      await server?.stop(graceMs);
    },
  };
}

/** Listens, and refuses everything but /healthz. */
async function listenMeanwhile({
  config,
  standby,
  unreadable,
  runtime,
  log,
}: {
  config: Config;
  standby: Standby;
  unreadable(): AppError | undefined;
  runtime: Runtime;
  log: Log;
}) {
  const { http, https, baseUrl, hostname, data: folder, tls: mode, trustedProxies } = config;
  const servers: HttpServer[] = [];
  const certificates = https === "off" ? undefined : await openCertificates({ mode, hostname, folder, runtime, log });
  const refuse = (): AppError => unreadable() ?? refusalFor("it starts");
  const text = async () => new Response(`${refuse().message}\n`, { status: 503, headers: { "retry-after": "5" } });
  const most = shareDescriptors(limitOfOpenFiles(), { imap: false }).http;
  await startHttp({
    http,
    https,
    baseUrl,
    certificates,
    runtime,
    log,
    connections: createHttpConnections({ most, trustedProxies, runtime, refused() {} }),
    pools: createRequestShares({ mostConnections: most, runtime }),
    rest: text,
    web: { respond: text },
    unavailable: refuse,
    health: { replica: () => false },
    standby: () => publicStandbyState(standby.state()),
    bound: (variable, start) =>
      bindListener(variable, async () => {
        const server = await start();
        servers.push(server);
        return server.address;
      }),
  });
  return {
    async stop(graceMs: number): Promise<void> {
      certificates?.stop();
      await Promise.all(servers.map((server) => server.stop(graceMs)));
    },
  };
}
