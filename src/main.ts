/** Entry: the command line on the real process, or a child of one, whose code is then all that is loaded. */
import { isParserProcess } from "./workers/parser-process.ts";
import { readerDatabaseFile } from "./workers/reader-process.ts";

if (isParserProcess()) await import("./workers/parser.ts");
else if (readerDatabaseFile() !== undefined) await import("./workers/reader.ts");
else {
  const lent = (await import("./cli/lending.ts")).readFileLenderArgument(process.argv);
  if (lent) (await import("./cli/lender.ts")).runFileLender(lent);
  else {
    const [{ runCommandLine: run }, { processIo }] = await Promise.all([
      import("./cli/cli.ts"),
      import("./cli/run.ts"),
    ]);
    process.exit(await run(process.argv.slice(2), processIo()));
  }
}
