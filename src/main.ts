/** Entry: the command line on the real process, or a child of one, whose code is then all that is loaded. */
import { isParser } from "./workers/parser-process.ts";

if (isParser()) await import("./workers/parser.ts");
else {
  const lent = (await import("./cli/lending.ts")).readLenderArgument(process.argv);
  if (lent) (await import("./cli/lender.ts")).lend(lent);
  else {
    const [{ run }, { processIo }] = await Promise.all([import("./cli/cli.ts"), import("./cli/run.ts")]);
    process.exit(await run(process.argv.slice(2), processIo()));
  }
}
