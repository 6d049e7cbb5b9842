/** Writes docs/api-examples.md from the operations: `bun packaging/api-examples.ts`. A test holds the page to them. */
import { join } from "node:path";
import { describeApi } from "../src/api/openapi.ts";
import { type ApiDocument, type Endpoint, listApiEndpoints } from "../src/api/reference/openapi-document.ts";
import { type Snippet, writeRequestSnippets } from "../src/api/reference/snippets.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../src/api/surfaces.ts";

const ORIGIN = "http://localhost:8025";

const OPENING = `# The API in curl, Python and JavaScript

An example of every operation. Each takes the API key from the environment variable \`MAILROOM_KEY\`; words such as \`THREAD_ID\`
stand for ids of yours. Python needs \`requests\`; JavaScript runs as a module, \`.mjs\`, in Node 20 or later and in Bun. The
reference at \`/api/docs\` of your server has the same with its own address and, if you like, a key of yours; [REST
API](api.md) says what holds for all operations.

This page is made of the operations: \`bun packaging/api-examples.ts\` writes it.
`;

const FENCES: Record<Snippet["language"], string> = { shell: "sh no-run=snippet", python: "python", javascript: "js" };

function operationOf(document: ApiDocument, endpoint: Endpoint): string {
  const { method, path, operation } = endpoint;
  const blocks = writeRequestSnippets(document, endpoint).map(
    ({ language, text }) => `\`\`\`${FENCES[language]}\n${text}\n\`\`\`\n`,
  );
  return [`### ${operation.operationId}\n`, `\`${method} ${path}\`: ${operation.summary}.\n`, ...blocks].join("\n");
}

/** Returns the page. */
export function examplesPage(): string {
  const parts = [MAIL_API, EXT_API, ADMIN_API].map((surface) => {
    const document = describeApi(surface, ORIGIN) as unknown as ApiDocument;
    const operations = listApiEndpoints(document).map((endpoint) => operationOf(document, endpoint));
    return [`## ${surface.title}\n`, `Paths are below \`${surface.prefix}\`.\n`, ...operations].join("\n");
  });
  return [OPENING, ...parts].join("\n");
}

if (import.meta.main) await Bun.write(join(import.meta.dir, "../docs/api-examples.md"), examplesPage());
