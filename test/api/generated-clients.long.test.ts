/**
 * Clients in Go and Python that generators make of the OpenAPI documents: they compile, and they work. The generators and
 * what their clients need come from the registries of Go and Python. generated-client.system.test.ts has one in TypeScript.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type ClientRig, clientRig, DOCUMENTS } from "./generated-clients.ts";

const missing = (program: string): string => (Bun.which(program) ? "" : ` (skipped: no ${program})`);
const names = Object.keys(DOCUMENTS);
const MINUTES = 60_000;

describe.skipIf(missing("go") !== "")(`Go${missing("go")}`, () => {
  /** Compiles the clients of all documents, one package each, with a program, and runs it. */
  async function build({ run, copy, use }: ClientRig, program: string): Promise<void> {
    copy(program, "main.go");
    await run(["go", "mod", "tidy"]);
    await run(["go", "vet", "./..."]);
    await run(["go", "build", "-o", "program", "."]);
    await use(["./program"]);
  }

  test(
    "ogen",
    async () => {
      const rig = await clientRig();
      await rig.run(["go", "mod", "init", "client"]);
      await rig.run(["go", "get", "github.com/ogen-go/ogen@v1.24.0"]);
      for (const name of names) {
        const generator = ["go", "run", "github.com/ogen-go/ogen/cmd/ogen@v1.24.0"];
        const said = await rig.run([...generator, "--target", name, "--package", name, "--clean", `${name}.json`]);
        // Go writes names of headers in another case than the documents do, which makes no difference.
        expect(
          said.split("\n").filter((line) => /\b(WARN|ERROR)\b|skip/.test(line) && !/not canonical/.test(line)),
        ).toEqual([]);
      }
      await build(rig, "ogen.go");
    },
    10 * MINUTES,
  );

  test(
    "oapi-codegen",
    async () => {
      const rig = await clientRig();
      await rig.run(["go", "mod", "init", "client"]);
      const generator = ["go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"];
      for (const name of names) {
        // It takes the schemas that only webhooks have for unused.
        const config = { package: name, generate: { models: true, client: true }, output: `${name}/client.go` };
        await Bun.write(
          join(rig.folder, "config.json"),
          JSON.stringify({ ...config, "output-options": { "skip-prune": true } }),
        );
        mkdirSync(join(rig.folder, name));
        expect(await rig.run([...generator, "-config", "config.json", `${name}.json`])).not.toMatch(/warn|error|skip/i);
      }
      await build(rig, "oapi-codegen.go");
    },
    10 * MINUTES,
  );
});

describe.skipIf(missing("python3") !== "")(`Python${missing("python3")}`, () => {
  test(
    "openapi-python-client",
    async () => {
      const { folder, run, copy, use } = await clientRig();
      await run(["python3", "-m", "venv", "venv"]);
      await run([
        "venv/bin/pip",
        "install",
        "--quiet",
        "openapi-python-client==0.29.1",
        "openapi-spec-validator==0.9.0",
      ]);
      // The generator knows no bytes of other types than application/octet-stream.
      const bytes = ["message/rfc822", "*/*"].map((type) => [type, "application/octet-stream"]);
      const config = { content_type_overrides: Object.fromEntries(bytes), post_hooks: [] };
      await Bun.write(join(folder, "config.json"), JSON.stringify(config));
      for (const name of names) {
        expect(await run(["venv/bin/openapi-spec-validator", `${name}.json`])).toContain("OK");
        const given = ["--path", `${name}.json`, "--config", "config.json", "--meta", "setup", "--output-path", name];
        expect(await run(["venv/bin/openapi-python-client", "generate", ...given])).not.toMatch(/warn|error|skip/i);
        await run(["venv/bin/pip", "install", "--quiet", `./${name}`]);
      }
      copy("openapi-python-client.py", "client.py");
      await use(["venv/bin/python", "client.py"]);
    },
    10 * MINUTES,
  );
});
