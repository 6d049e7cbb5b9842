/** `mailroom standby`: follows a server's replica and serves reads, until a signal. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { openStandby } from "../replica/standby.ts";
import { startStandby } from "../standby.ts";
import { claimFolder } from "../store/claim.ts";
import { command } from "./command.ts";
import { refuseEnvironment, type Session } from "./session.ts";

function findLitestream(data: string): string {
  const own = join(data, "bin", "litestream");
  const found = existsSync(own) ? own : Bun.which("litestream");
  if (!found) throw new Error(`there is no Litestream: there is no ${own}, and none in PATH`);
  return found;
}

export const standbyCommands = [
  command({
    name: "standby",
    summary: "Follow the replica of a server on another machine, and serve reads",
    staysRoot: true,
    async run(session: Session) {
      const { io, log, config, runtime } = session;
      const { data, replica: location } = config;
      if (!location) return refuseEnvironment(new ConfigError("MAILROOM_REPLICA names no replica to follow"));
      const interrupted = io.interrupted();
      const release = claimFolder(data);
      const standby = openStandby({ data, location, executable: findLitestream(data), runtime, log });
      const server = await startStandby({ config, standby, runtime, log });
      const ready = await Promise.race([server.ready, interrupted]);
      if (ready) {
        await io.writeStdout(`${JSON.stringify({ ready: true, ...ready })}\n`);
        await interrupted;
      }
      await server.stop();
      await standby.stop();
      release();
      return undefined;
    },
  }),
];
