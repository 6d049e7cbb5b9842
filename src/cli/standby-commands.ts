/** A second machine: `mailroom standby …` follows a server's replica, and `mailroom promote` makes it the server. */
import { ConfigError, Fenced } from "../base/errors.ts";
import { pause } from "../base/pause.ts";
import { toIsoTime } from "../base/time.ts";
import type { S3Location } from "../net/s3.ts";
import { decideServerRole } from "../replica/come-back.ts";
import { openStandby, type Standby } from "../replica/follow-replica.ts";
import { inviteStandby, joinServer } from "../replica/join.ts";
import { findLitestream } from "../replica/litestream.ts";
import { occupyServerPorts } from "../replica/ports.ts";
import { type Promoted, promoteStandby, turnStandbyIntoServer } from "../replica/promote.ts";
import { askStandbyPromotion, listenForStandbyCommands } from "../replica/standby-control.ts";
import { startStandby } from "../standby.ts";
import { claimFolder } from "../store/claim.ts";
import { defineCommand } from "./command.ts";
import { withoutTerminalControls } from "./output.ts";
import { type CommandContext, rethrowAsUsageError } from "./run.ts";
import { heedSignals, runServer } from "./serve-command.ts";

/** @throws UsageError without a replica */
function getReplicaLocation({ config }: CommandContext): S3Location {
  return config.replica ?? rethrowAsUsageError(new ConfigError("MAILROOM_REPLICA names no replica: give s3://…"));
}

/** Between tries to go on with a promotion. */
const RETRY_MS = 2_000;

interface Opened {
  standby: Standby;
  /** Takes over; the folder is then a server's as soon as nothing has its database open. */
  promote(tell: (step: string) => void): Promise<Promoted>;
  release(): void;
}

/** Follows in the data folder; undefined if it is the server's. `serves`: at the ports of HTTP, too. */
async function openHere(
  context: CommandContext,
  { serves }: { serves: boolean },
): Promise<(Opened & { isPromoting: boolean }) | undefined> {
  const { config, runtime, log } = context;
  const location = getReplicaLocation(context);
  const { data, baseUrl: url } = config;
  const release = claimFolder(data);
  try {
    const role = await decideServerRole({ data, location, runtime, log });
    if (role.role === "server") {
      release();
      return undefined;
    }
    if (role.role === "standby" && role.aside !== undefined) {
      log.warn("another machine has taken over: this one is its standby now, and its own database is kept aside", {
        server: role.takenBy?.url,
        aside: role.aside,
      });
    }
    // The settings, which might name another, are in the database that it fetches.
    const { path } = await findLitestream("auto", data, runtime, new AbortController().signal);
    const standby = openStandby({ data, location, executable: path, runtime, log });
    // The epoch that begins is its own.
    if (role.role === "promoting") standby.pause(true);
    return {
      standby,
      async promote(tell) {
        const free = await occupyServerPorts(config, { web: !serves });
        try {
          return await promoteStandby({ standby, data, location, url, tell, runtime });
        } finally {
          await free();
        }
      },
      isPromoting: role.role === "promoting",
      release,
    };
  } catch (error) {
    release();
    throw error;
  }
}

export const standby = defineCommand({
  name: "standby",
  summary: "Follow the replica of a server on another machine, and serve reads; after a promotion, serve",
  staysRoot: true,
  async run(context: CommandContext) {
    const { io, log, config, runtime } = context;
    const interrupted = io.interrupted();
    let running: { reload(): void } | undefined;
    heedSignals(context, () => running?.reload());
    const opened = await openHere(context, { serves: true });
    if (!opened) {
      log.info("this machine has the lease of the replica: it is the server");
      await serveHere(context, {
        interrupted,
        started(server) {
          running = server;
        },
      });
      return undefined;
    }
    const { standby, promote, isPromoting, release } = opened;
    const server = await startStandby({ config, standby, runtime, log });
    running = server;
    const promoted = Promise.withResolvers<Promoted>();
    const serving = Promise.withResolvers<object>();
    let underWay: Promise<Promoted> | undefined;

    function promoteOnce(tell: (step: string) => void): Promise<Promoted> {
      underWay ??= promote((step) => {
        log.warn("promotion", { step });
        tell(step);
      });
      underWay.then(promoted.resolve, () => {
        underWay = undefined;
      });
      return underWay;
    }

    const control = listenForStandbyCommands(config.data, {
      state: standby.state,
      async promote(tell) {
        const took = await promoteOnce(tell);
        return { ...took, ...(await serving.promise) };
      },
    });
    const shown = server.ready.then(async (ready) => {
      await io.writeStdout(`${JSON.stringify({ ready: true, ...ready })}\n`);
    });
    const over = new AbortController();
    /** Repeats the promotion until it succeeds. The standby has the lease, so no other server serves meanwhile. */
    async function goOn(): Promise<void> {
      await whenWhole(standby);
      while (!over.signal.aborted) {
        try {
          await promoteOnce(() => {});
          return;
        } catch (error) {
          log.warn("the promotion does not go on", { error });
          await pause(runtime, RETRY_MS, over.signal);
        }
      }
    }
    if (isPromoting) void goOn();
    const took = await Promise.race([promoted.promise, interrupted, shown.then(() => new Promise<never>(() => {}))]);
    over.abort();
    await server.stop();
    await standby.stop();
    if (took) {
      await turnStandbyIntoServer(config.data, context.runtime.now());
      release();
      await serveHere(context, {
        interrupted,
        started(server) {
          running = server;
          serving.resolve({ ready: server.ready });
        },
      });
    } else release();
    await control.stop();
    return undefined;
  },
});

/**
 * Serves like `mailroom serve`, but ends with another exit code once another server has taken over: a start of this command
 * then follows that server.
 */
async function serveHere(...running: Parameters<typeof runServer>): Promise<void> {
  try {
    await runServer(...running);
  } catch (error) {
    if (!(error instanceof Fenced) || !error.isFinal) throw error;
    throw new Fenced(`${error.message}; started again, mailroom standby follows it`, false);
  }
}

/** Resolves when the database can be taken over. */
const whenWhole = (standby: Standby): Promise<void> =>
  new Promise((resolve) => {
    const look = () => {
      if (standby.schema() !== undefined) resolve();
    };
    standby.onChange(look);
    look();
  });

export const standbyCommands = [
  defineCommand({
    name: "standby invite",
    summary: "On the server: make a code with which a standby gets its keys and certificates, once",
    async run(context: CommandContext) {
      const { data } = context.config;
      const { code, expiresAt } = await inviteStandby({
        data,
        location: getReplicaLocation(context),
        runtime: context.runtime,
      });
      return { code, expiresAt: toIsoTime(expiresAt) };
    },
    text: (document) => {
      const { code, expiresAt } = document as { code: string; expiresAt: string };
      return `On the standby, before ${expiresAt}:\n  mailroom standby join ${code}\n`;
    },
  }),
  defineCommand({
    name: "standby join",
    summary: "On the standby: take over the server's keys and certificates with the code that it made",
    arguments: { code: "CODE" },
    async run(context: CommandContext, { arguments: { code } }) {
      const { config, runtime } = context;
      return { files: await joinServer({ data: config.data, location: getReplicaLocation(context), runtime }, code) };
    },
  }),
  standby,
  defineCommand({
    name: "promote",
    summary: "On the standby: take over from a server that is gone",
    staysRoot: true,
    async run(context: CommandContext) {
      const { io, config } = context;
      const tell = (step: string) => io.writeStderr(`mailroom: ${withoutTerminalControls(step)}\n`);
      const done = await askStandbyPromotion(config.data, tell);
      if (done) return done;
      tell("no standby runs on this data folder: it is promoted without one");
      const opened = await openHere(context, { serves: false });
      if (!opened) return { promoted: false, reason: "this machine has the lease already: start mailroom serve" };
      try {
        await whenWhole(opened.standby);
        const took = await opened.promote(tell);
        await opened.standby.stop();
        await turnStandbyIntoServer(config.data, context.runtime.now());
        return { ...took, next: "start mailroom standby, or mailroom serve" };
      } finally {
        await opened.standby.stop();
        opened.release();
      }
    },
  }),
];
