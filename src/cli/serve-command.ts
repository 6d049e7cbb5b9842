/** `mailroom serve`: runs until a signal. */

import { keepEnvironment } from "../backup/environment.ts";
import { awaitAtMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Demo } from "../demo/demo.ts";
import { requireLoopbackListeners } from "../demo/demo-folder.ts";
import { type ServeOptions, type Server, serve as serveOn } from "../serve.ts";
import { takeDiskReserve } from "../store/reserve.ts";
import { defineCommand } from "./command.ts";
import { type CommandContext, rethrowAsUsageError } from "./run.ts";

/** Time for work in flight after SIGTERM (rules: Stopping). */
const STOP_WITHIN_MS = 10_000;

export const serve = defineCommand({
  name: "serve",
  summary: "Run the appliance",
  staysRoot: true,
  options: { demo: { summary: "In an empty data folder: load a demo workspace, and print a key for it" } },
  async run(context, { options }) {
    const { io, config } = context;
    const interrupted = io.interrupted();
    let running: Server | undefined;
    heedSignals(context, () => running?.reload());
    // Loaded only when needed: it imports what reads mail, which otherwise only parsers load.
    const demo = options.demo ? await import("../demo/demo.ts") : undefined;
    // Before the data folder is opened, and so made. The appliance says it of a demo's folder without --demo.
    if (demo) await Promise.try(requireLoopbackListeners, config).catch(rethrowAsUsageError);
    const { opened } = context;
    let loaded: Demo | undefined;
    // Runs once this server has the folder, so that it changes nothing in the demo of another server.
    const prepare = async () => {
      loaded = await demo?.loadDemo(opened.core);
    };
    await runServer(context, {
      interrupted,
      options: { hold: options.demo, prepare },
      started(server) {
        running = server;
        if (demo && loaded) io.writeStderr(demo.describeDemo(loaded, server.ready.http));
      },
    });
    return undefined;
  },
});

const RESERVE_MS = 60_000;

/** Takes the reserve of space now and whenever it was given up. Returns what ends this. */
function keepReserve(data: string, runtime: Pick<Runtime, "setTimer" | "randomBytes">): () => void {
  takeDiskReserve(data, runtime);
  let cancel = runtime.setTimer(again, RESERVE_MS);
  function again(): void {
    takeDiskReserve(data, runtime);
    cancel = runtime.setTimer(again, RESERVE_MS);
  }
  return () => cancel();
}

/** Has SIGHUP call `reload`, and logs other signals that change nothing. */
export function heedSignals({ io, log }: CommandContext, reload: () => void): void {
  io.keepRunning({
    reload() {
      log.info("SIGHUP: looking at the certificate again");
      reload();
    },
    ignored: (signal) => log.info("a signal without a meaning here was ignored", { signal }),
  });
}

/**
 * Serves the context's data folder until `interrupted`. `started` is called when it listens. @throws Fenced when another
 * server has taken over
 */
export async function runServer(
  { io, log, config, runtime, opened }: CommandContext,
  {
    interrupted,
    options,
    started,
  }: {
    interrupted: Promise<void>;
    options?: Pick<ServeOptions, "hold" | "prepare">;
    started?(server: Server): void;
  },
): Promise<void> {
  const interruption = new AbortController();
  const { signal } = interruption;
  const ended = interrupted.then(() => interruption.abort());
  const server = await serveOn(opened, { ...options, signal }).catch((error) => {
    if (error !== signal.reason) rethrowAsUsageError(error);
  });
  if (!server) return;
  started?.(server);
  const { ready } = server;
  // For backups. The server serves on a full disk, too.
  await keepEnvironment(config.data, io.env).catch((error) =>
    log.warn("the environment was not written down", { error }),
  );
  const token = ready.http === "off" ? undefined : opened.firstRun.issueToken();
  if (token !== undefined) {
    // Browsers do not send the part after #, so no proxy sees the token.
    const link = `${config.baseUrl}/setup#${token}`;
    log.warn("Mailroom is not set up yet: open the link once in a browser, or run mailroom setup", { link });
  }
  const endReserve = keepReserve(config.data, runtime);
  await io.writeStdout(`${JSON.stringify({ ready: true, ...ready })}\n`);
  // A server that was fenced finishes nothing.
  await Promise.race([ended, server.fenced]);
  endReserve();
  const stopped = server.stop().then(() => true);
  if (!(await awaitAtMost(runtime, STOP_WITHIN_MS, stopped))) log.warn("stopped with work in flight");
}
