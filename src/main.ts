/** Entry: the command line on the real process. */
import { run } from "./cli/cli.ts";
import { processIo } from "./cli/session.ts";

process.exit(await run(process.argv.slice(2), processIo()));
