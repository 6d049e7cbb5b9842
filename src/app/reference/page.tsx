/** The whole reference: contents beside it, then what holds for all operations, the operations, events and schemas. */
import { EVENT_NAMES } from "../../events/outbox.ts";
import { type ApiDocument, endpointsOf } from "./document.ts";
import { ChapterSection, chaptersOf, VERIFYING } from "./guide.tsx";
import { EventSection, OperationSection, SchemaSection, schemasOf } from "./sections.tsx";

export interface Files {
  script: string;
  style: string;
  icon: string;
}

interface Link {
  id: string;
  text: string;
  method?: string;
}

function Contents({ parts }: { parts: readonly { title: string; links: readonly Link[] }[] }) {
  return (
    <nav id="contents" aria-label="Contents" popover="auto">
      {/* Comes with the script: without it there is the browser's own search. */}
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

/** `origin`: where the server is for others; `documentPath`: of openapi.json. */
export function Page(given: { document: ApiDocument; origin: string; documentPath: string; files: Files }) {
  const { document, origin, documentPath, files } = given;
  const chapters = chaptersOf(document, origin);
  const endpoints = endpointsOf(document);
  const schemas = schemasOf(document);
  const groups = document.tags.map(({ name }) => ({
    name,
    endpoints: endpoints.filter(({ operation }) => operation.tags?.includes(name)),
  }));
  const parts = [
    { title: "Guide", links: chapters.map(({ id, title }) => ({ id, text: title })) },
    ...groups.map((group) => ({
      title: group.name,
      links: group.endpoints.map(({ method, operation }) => ({
        ...{ id: operation.operationId, text: operation.operationId, method },
      })),
    })),
    {
      title: "Webhooks",
      links: [
        { id: VERIFYING.id, text: VERIFYING.title },
        ...EVENT_NAMES.map((event) => ({ id: document.webhooks[event]?.post.operationId ?? "", text: event })),
      ],
    },
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
          <a href={documentPath}>openapi.json</a>
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
            <div key={group.name} className="part">
              <h2>{group.name}</h2>
              {group.endpoints.map((endpoint) => (
                <OperationSection key={endpoint.operation.operationId} document={document} endpoint={endpoint} />
              ))}
            </div>
          ))}
          <div className="part">
            <h2>Webhooks</h2>
            <ChapterSection chapter={VERIFYING} />
            {EVENT_NAMES.map((event) => (
              <EventSection key={event} document={document} event={event} />
            ))}
          </div>
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
