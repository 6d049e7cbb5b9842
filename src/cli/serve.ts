/** `mailroom serve`: the one command that stays. */

import { atMost } from "../base/pause.ts";
import type { Demo } from "../demo/demo.ts";
import { command } from "./command.ts";
import { refuseEnvironment } from "./session.ts";

/** rules: Stopping: what is in flight may take this long after SIGTERM. */
const STOP_WITHIN_MS = 10_000;

export const serve = command({
  name: "serve",
  summary: "Run the appliance",
  options: { demo: { summary: "In an empty data folder: load a workspace to look around in, and print a key for it" } },
  async run({ io, log, config, appliance }, { options }) {
    // Loaded when asked for: it brings the parser along, which otherwise only workers hold.
    const demo = options.demo ? await import("../demo/demo.ts") : undefined;
    let loaded: Demo | undefined;
    // It replaces key and password: not those of a server that runs on the folder.
    const prepare = async () => {
      loaded = await demo?.loadDemo(appliance);
    };
    const interrupted = io.interrupted();
    const ready = await appliance.start({ hold: options.demo, prepare }).catch(refuseEnvironment);
    if (demo && loaded) io.writeStderr(demo.describeDemo(loaded, ready.http));
    const token = ready.http === "off" ? undefined : appliance.firstRun.issueToken();
    if (token !== undefined) {
      // The token is behind a #, so that no server on the way is told of it.
      const link = `${config.baseUrl}/setup#${token}`;
      log.warn("Mailroom is not set up yet: open the link once in a browser, or run mailroom setup", { link });
    }
    await io.writeStdout(`${JSON.stringify({ ready: true, ...ready })}\n`);
    await interrupted;
    const stopped = appliance.stop().then(() => true);
    if (!(await atMost(appliance.runtime, STOP_WITHIN_MS, stopped))) log.warn("stopped with work in flight");
    return undefined;
  },
});
