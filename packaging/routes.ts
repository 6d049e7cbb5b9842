/** Writes docs/routes.md from the operations and the list of other routes here: `bun packaging/routes.ts`. A test holds the page to them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describeMcp } from "../src/api/mcp/mcp-discovery.ts";
import { ADMIN_API, EXT_API, MAIL_API, openApiDocumentPath, REFERENCE_PATH } from "../src/api/surfaces.ts";
import { VIEWER_PATH } from "../src/base/frames.ts";
import { AUTHORIZE_PATH, describeOAuth, REGISTER_PATH, REVOKE_PATH, TOKEN_PATH } from "../src/oauth/metadata.ts";
import { APP_PREFIX, APP_ROUTES, pathInApp } from "../src/operations/app-routes.ts";
import { APP_OPERATIONS } from "../src/operations/operations.ts";

const root = join(import.meta.dir, "..");

export interface RouteRow {
  name: string;
  method: string;
  /** Whole, parameters as `:name`; a path that ends in `*` stands for all below it. */
  path: string;
  /** The scopes of a key, or who may ask. */
  who: string;
  /** From the root of the project. */
  file: string;
}

/** The files of operations by the names of these. */
const OPERATION_FILES = new Map<string, string>();
for (const file of [...new Bun.Glob("src/operations/*/*.ts").scanSync(root)].sort()) {
  for (const value of Object.values(await import(join(root, file)))) {
    if (typeof value === "object" && value !== null && "name" in value && "audience" in value) {
      OPERATION_FILES.set(String(value.name), file);
    }
  }
}

const fileOf = (operation: string): string => {
  const file = OPERATION_FILES.get(operation);
  if (file === undefined) throw new Error(`no file of src/operations exports ${operation}`);
  return file;
};

/** The file of src/http that answers a route of the app. */
function answererOf(route: string): string {
  const files = [...new Bun.Glob("src/http/*.ts").scanSync(root)];
  const file = files.find((path) => readFileSync(join(root, path), "utf8").includes(`...APP_ROUTES.${route},`));
  if (file === undefined) throw new Error(`no file of src/http answers ${route}`);
  return file;
}

const surfaces = [MAIL_API, EXT_API, ADMIN_API].map(({ title, prefix, operations }) => ({
  heading: title,
  text: `Below \`${prefix}\`, with an API key that has the scope.`,
  rows: operations.map(
    ({ name, method, path, scope }): RouteRow => ({
      name,
      method,
      path: prefix + path,
      who: [scope].flat().join(" or "),
      file: fileOf(name),
    }),
  ),
}));

const appRows: RouteRow[] = [
  ...APP_OPERATIONS.map((operation) => ({
    name: operation.name,
    method: operation.method,
    path: APP_PREFIX + pathInApp(operation),
    who: operation.audience,
    file: fileOf(operation.name),
  })),
  ...Object.entries(APP_ROUTES).map(([name, { method, path, audience }]) => ({
    name,
    method,
    path: APP_PREFIX + path,
    who: audience,
    file: answererOf(name),
  })),
  {
    name: "remote image",
    method: "GET",
    path: `${APP_PREFIX}/images`,
    who: "person",
    file: "src/http/frame-responses.ts",
  },
];

const reading = (name: string, path: string, who: string, file: string): RouteRow => ({
  ...{ name, method: "GET", path, who, file },
});
const posting = (name: string, path: string, who: string, file: string): RouteRow => ({
  ...{ name, method: "POST", path, who, file },
});

const programRows: RouteRow[] = [
  posting("MCP", "/api/mcp", "a key; tools by its scopes", "src/api/mcp.ts"),
  ...[MAIL_API, EXT_API, ADMIN_API].map((surface) =>
    reading(`OpenAPI document, ${surface.title}`, openApiDocumentPath(surface), "anyone", "src/api/openapi.ts"),
  ),
  posting("OAuth token", TOKEN_PATH, "a program with a code or a refresh token", "src/http/oauth-endpoints.ts"),
  posting("OAuth revocation", REVOKE_PATH, "a program with its token", "src/http/oauth-endpoints.ts"),
  posting("OAuth registration", REGISTER_PATH, "anyone", "src/http/oauth-endpoints.ts"),
  ...describeOAuth("").map(([path]) => reading("OAuth metadata", path, "anyone", "src/oauth/metadata.ts")),
  ...describeMcp("https://mail.example.com", "").map(([path]) =>
    reading("description of the MCP server", path, "anyone", "src/api/mcp/mcp-discovery.ts"),
  ),
];

const serverRows: RouteRow[] = [
  reading("health", "/healthz", "anyone", "src/http/http-server.ts"),
  reading("metrics", "/metrics", "`metrics.token`, `metrics.allowNetworks`", "src/http/http-server.ts"),
  reading("challenge of a certificate authority", "/.well-known/acme-challenge/*", "anyone", "src/http/http-server.ts"),
  reading("MTA-STS policy, at `mta-sts.DOMAIN`", "/.well-known/mta-sts.txt", "anyone", "src/admin/publish-mta-sts.ts"),
  ...["/mail/config-v1.1.xml", "/.well-known/autoconfig/mail/config-v1.1.xml", "/.well-known/mail-v1.xml"].map((path) =>
    reading("settings of mail apps", path, "anyone", "src/http/mail-app-discovery.ts"),
  ),
  ...["GET", "POST"].map((method) => ({
    ...reading("settings of mail apps, Autodiscover", "/autodiscover/autodiscover.xml", "anyone", ""),
    method,
    file: "src/http/mail-app-discovery.ts",
  })),
];

const page = (name: string, path: string, file = "src/http/pages.ts"): RouteRow => reading(name, path, "anyone", file);

const pageRows: RouteRow[] = [
  page("first page", "/"),
  page("sign-in", "/sign-in"),
  page("first run", "/setup"),
  page("choosing a password", "/password"),
  page("mail", "/mail"),
  page("mail", "/mail/*"),
  page("approving", "/approve"),
  page("approving", "/approve/*"),
  page("settings", "/settings"),
  page("settings", "/settings/*"),
  page("consent of OAuth", AUTHORIZE_PATH),
  page("service worker", "/service-worker.js"),
  page("manifest", "/manifest.webmanifest"),
  ...["/icon-192.png", "/icon-512.png", "/icon-mask-512.png", "/apple-touch-icon.png"].map((path) =>
    page("icon", path),
  ),
  page("scripts, styles and fonts, by their hashes", "/assets/*"),
  page("viewer of PDFs", VIEWER_PATH),
  page("files of the viewer", "/assets/pdf/*"),
  page("API reference", REFERENCE_PATH, "src/http/reference.ts"),
  page("files of the reference", `${REFERENCE_PATH}/*`, "src/http/reference.ts"),
];

/** The routes in the order of the page. */
export const ROUTE_SECTIONS: readonly { heading: string; text: string; rows: readonly RouteRow[] }[] = [
  ...surfaces,
  {
    heading: "The app's own API",
    text: `With the session of a person, but for visitors. Beside these, the app has the operations of \`${MAIL_API.prefix}\` below \`${APP_PREFIX}\`, and those of \`${ADMIN_API.prefix}\` below \`${APP_PREFIX}/settings\`, under the same names.`,
    rows: appRows,
  },
  { heading: "MCP, OAuth, and documents for programs", text: "", rows: programRows },
  {
    heading: "The server, certificates, and mail apps",
    text: "Beside an HTTPS listener, the HTTP listener has health and challenges alone, and redirects.",
    rows: serverRows,
  },
  { heading: "Pages", text: "They contain nobody's data.", rows: pageRows },
];

const OPENING = `# Routes

Everything that the server answers over HTTP, and the file that does it. What can be read with GET can be asked for with HEAD, too;
any other method of a path is 405 with \`Allow\`. [REST API](api.md), [MCP](mcp.md) and [Web app](web-app.md) explain them.

The page is made of the operations: \`bun packaging/routes.ts\` writes it.
`;

const rowText = ({ name, method, path, who, file }: RouteRow): string =>
  `| ${name} | ${method} | \`${path}\` | ${who} | \`${file}\` |`;

/** Returns the page. */
export function routesPage(): string {
  const sections = ROUTE_SECTIONS.map(({ heading, text, rows }) =>
    [
      `## ${heading}\n`,
      ...(text === "" ? [] : [`${text}\n`]),
      "| name | method | path | for | file |\n|---|---|---|---|---|",
      ...rows.map(rowText),
      "",
    ].join("\n"),
  );
  return [OPENING, ...sections].join("\n");
}

if (import.meta.main) await Bun.write(join(root, "docs/routes.md"), routesPage());
