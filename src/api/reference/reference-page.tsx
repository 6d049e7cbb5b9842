/**
 * The page of the reference: contents at the side; the guide, the operations, the events, the tools and the schemas. The only file
 * that knows React's server side.
 */
import { Fragment } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { EVENT_NAMES } from "../../events/kinds.ts";
import type { Tool } from "../mcp/tools.ts";
import { buildAgentsChapter, buildGuideChapters, ChapterSection, VERIFYING } from "./guide.tsx";
import { type ApiDocument, type Endpoint, formatOperationTitle, listApiEndpoints } from "./openapi-document.ts";
import { EventSection, listResponseSchemas, OperationSection, SchemaSection, ToolSection } from "./sections.tsx";

interface Link {
  id: string;
  text: string;
  method?: string;
}

function Contents({ parts }: { parts: readonly { title: string; links: readonly Link[] }[] }) {
  return (
    <nav id="contents" aria-label="Contents" popover="auto">
      {/* The script shows this field. Without the script, readers have the browser's own search. */}
      <div id="find" hidden>
        <label>
          <span className="unseen">Find in the reference</span>
          <input type="search" placeholder="Find…" autoComplete="off" spellCheck={false} aria-describedby="found" />
          <kbd aria-hidden>/</kbd>
        </label>
        <p id="found" role="status" className="unseen" />
      </div>
      {parts.map(({ title, links }) => (
        <div key={title} className="part">
          <p>{title}</p>
          <ul>
            {links.map(({ id, text, method }) => (
              <li key={id}>
                <a href={`#${id}`}>
                  {text}
                  {method !== undefined && <span className={`method ${method}`}>{method}</span>}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
      <p id="nothing" hidden>
        Nothing is called that.
      </p>
    </nav>
  );
}

/** An API of the server: its OpenAPI document, and the path of that document. */
interface Api {
  document: ApiDocument;
  path: string;
}

/** An API other than that of mail. */
interface NamedApi extends Api {
  name: string;
}

interface Group {
  title: string;
  document: ApiDocument;
  endpoints: Endpoint[];
}

/** Groups the operations of an API by their tags. */
const groupEndpointsByTag = (document: ApiDocument, formatGroupTitle: (name: string) => string): Group[] =>
  document.tags.map(({ name }) => ({
    title: formatGroupTitle(name),
    document,
    endpoints: listApiEndpoints(document).filter(({ operation }) => operation.tags?.includes(name)),
  }));

const listGroupLinks = ({ title, endpoints }: Group) => ({
  title,
  links: endpoints.map(({ method, operation }) => ({
    id: operation.operationId,
    text: formatOperationTitle(operation),
    method,
  })),
});

function GroupSections({ of: { title, document, endpoints } }: { of: Group }) {
  return (
    <div className="part">
      <h2>{title}</h2>
      {endpoints.map((endpoint) => (
        <OperationSection key={endpoint.operation.operationId} document={document} endpoint={endpoint} />
      ))}
    </div>
  );
}

interface ReferenceParts {
  /** The API of mail, then the others. */
  apis: readonly [Api, ...NamedApi[]];
  /** Tools of the MCP server. */
  tools: readonly Tool[];
  /** Public origin. */
  origin: string;
  /** Paths of the page's files. */
  files: { script: string; style: string; icon: string };
}

/** Writes the reference as HTML. */
export const renderReference = (parts: ReferenceParts): string =>
  `<!doctype html>${renderToStaticMarkup(<Page {...parts} />)}`;

function Page({ apis, tools, origin, files }: ReferenceParts) {
  const [{ document, path: documentPath }, ...others] = apis;
  const chapters = buildGuideChapters(document);
  const agents = buildAgentsChapter(origin);
  const schemas = listResponseSchemas(apis.map((api) => api.document));
  const groups = groupEndpointsByTag(document, (name) => name);
  const further = others.map((api) => ({
    ...api,
    groups: groupEndpointsByTag(api.document, (group) => `${api.name}: ${group}`),
  }));
  const parts = [
    { title: "Guide", links: chapters.map(({ id, title }) => ({ id, text: title })) },
    ...groups.map(listGroupLinks),
    {
      title: "Webhooks",
      links: [
        { id: VERIFYING.id, text: VERIFYING.title },
        ...EVENT_NAMES.map((event) => ({ id: document.webhooks?.[event]?.post.operationId ?? "", text: event })),
      ],
    },
    {
      title: "Tools for agents (MCP)",
      links: [
        { id: agents.id, text: agents.title },
        ...tools.map(({ listed: { name } }) => ({ id: name, text: name })),
      ],
    },
    ...further.flatMap(({ groups }) => groups.map(listGroupLinks)),
    { title: "Schemas", links: schemas.map(([name]) => ({ id: name, text: name })) },
  ];
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Mailroom API reference</title>
        <link rel="icon" href={files.icon} type="image/svg+xml" />
        <link rel="stylesheet" href={files.style} />
        <script type="module" src={files.script} />
      </head>
      <body>
        <a className="skip" href="#content">
          Skip to the reference
        </a>
        <header>
          <img src={files.icon} alt="" width={26} height={26} />
          <p>
            <strong>Mailroom</strong> API <small>{document.info.version}</small>
          </p>
          <button type="button" popoverTarget="contents">
            Contents
          </button>
          <span id="key" hidden />
          <a href={documentPath}>OpenAPI: mail</a>
          {others.map(({ path, name }) => (
            <a key={path} href={path}>
              {name.toLowerCase()}
            </a>
          ))}
          <a href="/settings/keys">API keys</a>
        </header>
        <Contents parts={parts} />
        <main id="content" tabIndex={-1}>
          <div className="opening">
            <h1>API reference</h1>
            <p>{document.info.description}</p>
            <p>
              Every path is below <code>{document.servers[0].url}</code>. Bodies are JSON.
            </p>
          </div>
          <div className="part">
            <h2>Guide</h2>
            {chapters.map((chapter) => (
              <ChapterSection key={chapter.id} chapter={chapter} />
            ))}
          </div>
          {groups.map((group) => (
            <GroupSections key={group.title} of={group} />
          ))}
          <div className="part">
            <h2>Webhooks</h2>
            <ChapterSection chapter={VERIFYING} />
            {EVENT_NAMES.map((event) => (
              <EventSection key={event} document={document} event={event} />
            ))}
          </div>
          <div className="part">
            <h2>Tools for agents (MCP)</h2>
            <ChapterSection chapter={agents} />
            {tools.map((tool) => (
              <ToolSection key={tool.listed.name} tool={tool} />
            ))}
          </div>
          {further.map(({ document, name, groups }) => (
            <Fragment key={name}>
              <div className="opening">
                <h2>{name}</h2>
                <p>{document.info.description}</p>
                <p>
                  Every path is below <code>{document.servers[0].url}</code>.
                </p>
              </div>
              {groups.map((group) => (
                <GroupSections key={group.title} of={group} />
              ))}
            </Fragment>
          ))}
          <div className="part">
            <h2>Schemas</h2>
            {schemas.map(([name, schema]) => (
              <SchemaSection key={name} name={name} schema={schema} />
            ))}
          </div>
        </main>
      </body>
    </html>
  );
}
