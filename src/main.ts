/** Entry: the command line on the real process, or a child of one, whose code is then all that is loaded. */
import { lenderOf } from "./cli/lending.ts";
import { isParser } from "./workers/parser-process.ts";

const lent = lenderOf(process.argv);
if (isParser()) await import("./workers/parser.ts");
else if (lent) (await import("./cli/lender.ts")).lend(lent);
else {
  const [{ run }, { processIo }] = await Promise.all([import("./cli/cli.ts"), import("./cli/session.ts")]);
  process.exit(await run(process.argv.slice(2), processIo()));
}
