/**
 * The example request of each operation with curl, in Python and in JavaScript, for the reference and for
 * docs/api-examples.md. Each takes the API key from the environment variable MAILROOM_KEY. Ids in paths are placeholders,
 * such as THREAD_ID.
 */
import type { ApiDocument, Endpoint } from "./openapi-document.ts";

export type Language = "shell" | "python" | "javascript";

/** How each language takes the API key from the environment, and what stands there once the page has a key, for KEY. */
export const CREDENTIALS: Record<Language, { text: string; filled: string }> = {
  shell: { text: "$MAILROOM_KEY", filled: "KEY" },
  python: { text: "f\"Bearer {os.environ['MAILROOM_KEY']}\"", filled: '"Bearer KEY"' },
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
  javascript: { text: "`Bearer ${process.env.MAILROOM_KEY}`", filled: '"Bearer KEY"' },
};

export interface Snippet {
  name: "curl" | "Shell" | "Python" | "JavaScript";
  language: Language;
  text: string;
}

interface Example {
  method: string;
  url: string;
  query: [name: string, value: string][];
  /** Headers beside those of the key and of JSON. */
  headers: [name: string, value: string][];
  body: unknown;
  /** File name under which a download is saved; undefined when the answer is JSON. */
  file: string | undefined;
}

const SINGULAR: Record<string, string> = { people: "person", mailboxes: "mailbox" };

/** The words that stand for the parameters of a path, by name: THREAD_ID for the id in `/threads/{id}`. */
export function listPathPlaceholders(path: string): Record<string, string> {
  const found = path.matchAll(/(\w+)\/\{(\w+)\}/g);
  return Object.fromEntries(
    [...found].map(([, group = "", name = ""]) => {
      const words = name === "id" ? `${SINGULAR[group] ?? group.replace(/s$/, "")}Id` : name;
      return [name, words.replaceAll(/[A-Z]/g, "_$&").toUpperCase()];
    }),
  );
}

/** The example of an operation, with placeholders in its path. */
export function exampleRequest({ servers }: ApiDocument, { method, path, operation }: Endpoint): Example {
  const { parameters = [], requestBody, responses } = operation;
  const placeholders = listPathPlaceholders(path);
  const types = Object.values(responses).flatMap((response) =>
    "content" in response ? Object.keys(response.content ?? {}) : [],
  );
  return {
    method,
    url: servers[0].url + path.replaceAll(/\{(\w+)\}/g, (_, name: string) => placeholders[name] ?? name),
    query: parameters.flatMap(({ in: place, name, example }) =>
      place === "query" && example !== undefined ? [[name, String(example)] as [string, string]] : [],
    ),
    headers: parameters.some(({ name }) => name === "Idempotency-Key")
      ? [["Idempotency-Key", `${operation.operationId}-1042`]]
      : [],
    body: requestBody?.content["application/json"].example,
    file: types.includes("application/json")
      ? undefined
      : types.includes("message/rfc822")
        ? "message.eml"
        : "attachment",
  };
}

const quoteForShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function writeCurlSnippet({ method, url, query, headers, body, file }: Example): string {
  const flags = [
    ...(file === undefined ? [] : [`-o ${file}`]),
    ...(query.length > 0 ? ["-G"] : []),
    ...(method === "GET" || (method === "POST" && body !== undefined) ? [] : [`-X ${method}`]),
  ];
  return [
    ["curl", ...flags, `"${url}"`].join(" "),
    `-H "Authorization: Bearer ${CREDENTIALS.shell.text}"`,
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'"]),
    ...headers.map(([name, value]) => `-H ${quoteForShell(`${name}: ${value}`)}`),
    ...query.map(([name, value]) => `--data-urlencode ${quoteForShell(`${name}=${value}`)}`),
    ...(body === undefined ? [] : [`-d ${quoteForShell(JSON.stringify(body, null, 2))}`]),
  ].join(" \\\n  ");
}

/** Writes a JSON value as a literal of Python, on several lines if it is an object. */
function pythonLiteral(value: unknown, indent: string): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map((item) => pythonLiteral(item, indent)).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const fields = Object.entries(value).map(
    ([name, field]) => `${indent}    ${JSON.stringify(name)}: ${pythonLiteral(field, `${indent}    `)},\n`,
  );
  return `{\n${fields.join("")}${indent}}`;
}

function writePythonSnippet({ method, url, query, headers, body, file }: Example): string {
  const argument = (name: string, value: unknown) => `    ${name}=${pythonLiteral(value, "    ")},`;
  return [
    "import os",
    "import requests",
    "",
    `response = requests.${method.toLowerCase()}(`,
    `    ${JSON.stringify(url)},`,
    "    headers={",
    `        "Authorization": ${CREDENTIALS.python.text},`,
    ...headers.map(([name, value]) => `        ${JSON.stringify(name)}: ${JSON.stringify(value)},`),
    "    },",
    ...(query.length > 0 ? [argument("params", Object.fromEntries(query))] : []),
    ...(body === undefined ? [] : [argument("json", body)]),
    ")",
    "response.raise_for_status()",
    ...(file === undefined
      ? ["print(response.json())"]
      : [`with open(${JSON.stringify(file)}, "wb") as file:`, "    file.write(response.content)"]),
  ].join("\n");
}

const javascriptLiteral = (value: unknown): string =>
  JSON.stringify(value, null, 2).replaceAll(/^( *)"(\w+)":/gm, "$1$2:");

function writeJavascriptSnippet({ method, url, query, headers, body, file }: Example): string {
  return [
    ...(file === undefined ? [] : ['import { writeFile } from "node:fs/promises";', ""]),
    ...(query.length > 0
      ? [`const query = new URLSearchParams(${javascriptLiteral(Object.fromEntries(query))});`]
      : []),
    `const response = await fetch(${query.length > 0 ? `\`${url}?\${query}\`` : JSON.stringify(url)}, {`,
    ...(method === "GET" ? [] : [`  method: ${JSON.stringify(method)},`]),
    "  headers: {",
    `    Authorization: ${CREDENTIALS.javascript.text},`,
    ...(body === undefined ? [] : ['    "Content-Type": "application/json",']),
    ...headers.map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`),
    "  },",
    ...(body === undefined ? [] : [`  body: JSON.stringify(${javascriptLiteral(body).replaceAll("\n", "\n  ")}),`]),
    "});",
    "if (!response.ok) throw new Error(await response.text());",
    file === undefined
      ? "console.log(await response.json());"
      : `await writeFile(${JSON.stringify(file)}, Buffer.from(await response.arrayBuffer()));`,
  ].join("\n");
}

export function writeRequestSnippets(document: ApiDocument, endpoint: Endpoint): Snippet[] {
  const example = exampleRequest(document, endpoint);
  return [
    { name: "curl", language: "shell", text: writeCurlSnippet(example) },
    { name: "Python", language: "python", text: writePythonSnippet(example) },
    { name: "JavaScript", language: "javascript", text: writeJavascriptSnippet(example) },
  ];
}

const VERIFY_PYTHON = `import hashlib, hmac, time

def is_genuine(body, header, secret):
    # body: the bytes as they came, not parsed and written again
    signed = dict(part.partition("=")[::2] for part in header.split(","))
    at, given = signed.get("t", ""), signed.get("v1", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > 300:
        return False
    expected = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), given.encode())`;

const VERIFY_JAVASCRIPT = `import { createHmac, timingSafeEqual } from "node:crypto";

export function isGenuine(body, header, secret) {
  // body: the bytes as they came, not parsed and written again
  const { t, v1 = "" } = Object.fromEntries(header.split(",").map((part) => part.split("=", 2)));
  if (!(Math.abs(Date.now() / 1000 - t) <= 300)) return false;
  const expected = createHmac("sha256", secret).update(t + ".").update(body).digest();
  const given = Buffer.from(v1, "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}`;

const VERIFY_SHELL = `# For trying: body.json has the bytes as they came, $HEADER the signature, $SECRET the secret.
t=\${HEADER#t=}; t=\${t%%,*}; age=$(( $(date +%s) - t ))
expected=$({ printf '%s.' "$t"; cat body.json; } | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d ' ' -f 1)
if [ "\${HEADER#*,v1=}" = "$expected" ] && [ "\${age#-}" -le 300 ]; then echo genuine; else echo forged; fi`;

/** Code that tells whether a webhook's delivery is genuine (rules: Webhook signature). */
export const SIGNATURE_CHECKS: readonly Snippet[] = [
  { name: "Shell", language: "shell", text: VERIFY_SHELL },
  { name: "Python", language: "python", text: VERIFY_PYTHON },
  { name: "JavaScript", language: "javascript", text: VERIFY_JAVASCRIPT },
];
