/**
 * Bundles the browser code that begins at the file named on the command line, below src/web, and writes `{script, style}`
 * as JSON to standard output. A program of its own, which app-files.macro.ts runs: a macro cannot wait for a bundler
 * inside the one that runs it.
 */
import { join } from "node:path";
import tailwind from "bun-plugin-tailwind";

const [, , entry = ""] = process.argv;
const { outputs } = await Bun.build({
  entrypoints: [join(import.meta.dir, entry)],
  plugins: [tailwind],
  target: "browser",
  minify: true,
  define: { "process.env.NODE_ENV": '"production"' },
});

async function textOf(ending: string): Promise<string> {
  const output = outputs.find(({ path }) => path.endsWith(ending));
  if (!output) throw new Error(`the bundler wrote no ${ending} file`);
  return output.text();
}

await Bun.write(Bun.stdout, JSON.stringify({ script: await textOf(".js"), style: await textOf(".css") }));
