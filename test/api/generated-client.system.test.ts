/**
 * A client in TypeScript, with types that openapi-typescript makes of the OpenAPI documents: they compile, and it works.
 * The clients of other generators are in generated-clients.long.test.ts.
 */
import { expect, test } from "bun:test";
import { realpathSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { clientRig, DOCUMENTS } from "./generated-clients.ts";

const generator = Bun.which("openapi-typescript");
const note = generator
  ? ""
  : " (skipped: npm install -g openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3)";

test.skipIf(!generator)(
  `openapi-typescript and openapi-fetch${note}`,
  async () => {
    const { folder, run, copy, use } = await clientRig();
    const names = Object.keys(DOCUMENTS);
    for (const name of names) {
      const said = await run([generator ?? "", `${name}.json`, "-o", `${name}.ts`]);
      expect(said).not.toMatch(/warn|error/i);
    }
    // openapi-fetch is installed beside the generator.
    symlinkSync(join(realpathSync(generator ?? ""), "../../.."), join(folder, "node_modules"));
    copy("openapi-fetch.mts", "client.mts");
    const strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
    const types = join(import.meta.dir, "../../node_modules");
    const options = ["--noEmit", "--allowImportingTsExtensions", "--module", "preserve", "--target", "esnext"];
    const nodeTypes = ["--typeRoots", types, "--types", "bun-types"];
    await run([
      join(types, ".bin/tsc"),
      ...strict,
      ...options,
      ...nodeTypes,
      "client.mts",
      ...names.map((name) => `${name}.ts`),
    ]);
    await use([process.execPath, "client.mts"]);
  },
  120_000,
);
