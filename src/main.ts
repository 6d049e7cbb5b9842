/** Entry: the command line on the real process, or a parser of a server, whose code is then all that is loaded. */
import { isParser } from "./workers/parser-process.ts";

if (isParser()) await import("./workers/parser.ts");
else {
  const [{ run }, { processIo }] = await Promise.all([import("./cli/cli.ts"), import("./cli/session.ts")]);
  process.exit(await run(process.argv.slice(2), processIo()));
}
