/**
 * Bundles the browser code of the entry file named on the command line, a path below src, and writes a `Bundle` as JSON
 * to stdout. bundled.macro.ts runs it as a program, because a macro cannot await Bun.build inside the bundler that runs
 * it.
 */
import { basename, join } from "node:path";
import tailwind from "bun-plugin-tailwind";

/** Files for one folder: scripts import each other by name. */
export interface Bundle {
  script: string;
  style: string;
  /** The other scripts, by name; names are hashes. */
  chunks: Record<string, string>;
  /** Names of the scripts that `script` imports statically; the others are loaded on demand. */
  first: string[];
}

const [, , entry = ""] = process.argv;
const { outputs } = await Bun.build({
  entrypoints: [join(import.meta.dir, "..", entry)],
  plugins: [tailwind],
  target: "browser",
  minify: true,
  splitting: true,
  naming: { chunk: "[hash].[ext]" },
  define: { "process.env.NODE_ENV": '"production"' },
});

/** Undefined if the entry has none. */
const findOutputText = async (kind: string, ending: string): Promise<string | undefined> =>
  outputs.find((one) => one.kind === kind && one.path.endsWith(ending))?.text();

const chunks: Record<string, string> = {};
for (const output of outputs.filter(({ kind }) => kind === "chunk"))
  chunks[basename(output.path)] = await output.text();

const transpiler = new Bun.Transpiler({ loader: "js" });
function addImported(code: string, names: Set<string>): Set<string> {
  for (const { path, kind } of transpiler.scanImports(code)) {
    const name = basename(path);
    if (kind !== "import-statement" || names.has(name)) continue;
    names.add(name);
    addImported(chunks[name] ?? "", names);
  }
  return names;
}

const script = await findOutputText("entry-point", ".js");
if (script === undefined) throw new Error("the bundler wrote no script");
const first = [...addImported(script, new Set())];
const bundle: Bundle = { script, style: (await findOutputText("asset", ".css")) ?? "", chunks, first };
await Bun.write(Bun.stdout, JSON.stringify(bundle));
