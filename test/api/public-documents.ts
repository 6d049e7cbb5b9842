/**
 * The documents by which programs and models know the server, as text: OpenAPI of each API, and the tools of MCP.
 * Writes them into a folder: bun test/api/public-documents.ts FOLDER
 */
import { join } from "node:path";
import { createTools } from "../../src/api/mcp/tools.ts";
import { INSTRUCTIONS } from "../../src/api/mcp.ts";
import { describeApi } from "../../src/api/openapi.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { SCOPES } from "../../src/store/schema.ts";

const ORIGIN = "https://mail.example.test";

const documents = {
  v1: describeApi(MAIL_API, ORIGIN),
  "ext-v1": describeApi(EXT_API, ORIGIN),
  "admin-v1": describeApi(ADMIN_API, ORIGIN),
  mcp: { instructions: INSTRUCTIONS, tools: createTools(MAIL_OPERATIONS).listFor(new Set(SCOPES)) },
};

export const PUBLIC_DOCUMENTS = Object.entries(documents).map(([name, document]) => ({
  name,
  text: `${JSON.stringify(document, null, 2)}\n`,
}));

if (import.meta.main) {
  const [, , folder = "."] = process.argv;
  for (const { name, text } of PUBLIC_DOCUMENTS) await Bun.write(join(folder, `${name}.json`), text);
}
