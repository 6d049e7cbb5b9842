/**
 * Blocks of the reference: code with coloured words, and tables of fields. A table has the name of each field, its
 * type, its meaning, and says when it must be given or may be missing. The fields of nested objects stand by their
 * path.
 */
import type { ReactNode } from "react";
import { nameOfRef, type Schema } from "./document.ts";
import type { Snippet } from "./snippets.ts";

const TOKENS: Record<"json" | Snippet["language"], RegExp> = {
  json: /(?<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?<text>"(?:[^"\\]|\\.)*")|(?<word>\b(?:true|false|null)\b|-?\b\d[\d.]*\b)/g,
  python:
    /(?<text>"(?:[^"\\]|\\.)*")|(?<key>#.*)|(?<word>\b(?:import|def|return|with|as|if|for|in|True|False|None)\b)/g,
  typescript:
    /(?<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?<word>\b(?:import|from|const|new|await|if|throw|true|false|null)\b)/g,
  shell: /(?<word>^curl\b)|(?<key>(?<=\s)--?[A-Za-z][\w-]*)|(?<text>'[^']*'|"[^"]*")/g,
};

function highlighted(text: string, language: keyof typeof TOKENS): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS[language])) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? [];
    parts.push(text.slice(end, match.index));
    parts.push(
      <span key={match.index} className={`token-${kind}`}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** A piece of code under its title. The page's script (app/reference/browser.ts) adds a button that copies it. */
export function Code({ title, language, text }: { title: string; language: keyof typeof TOKENS; text: string }) {
  return (
    <figure className="code">
      <figcaption>{title}</figcaption>
      <pre>
        <code>{highlighted(text, language)}</code>
      </pre>
    </figure>
  );
}

/** The example request of an operation in several languages, of which the reader chooses one. */
export function Snippets({ of: operationId, snippets }: { of: string; snippets: readonly Snippet[] }) {
  return (
    <div className="snippets">
      <fieldset>
        <legend className="unseen">Language of the request</legend>
        {snippets.map(({ name }, index) => (
          <label key={name}>
            <input type="radio" name={`${operationId}-language`} defaultChecked={index === 0} />
            {name}
          </label>
        ))}
      </fieldset>
      {snippets.map(({ name, language, text }) => (
        <Code
          key={name}
          title={`Request, ${name === "curl" ? "with" : "in"} ${name}`}
          language={language}
          text={text}
        />
      ))}
    </div>
  );
}

/** Text whose words between backticks are code. */
export const Prose = ({ children }: { children: string }): ReactNode =>
  children.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));

export interface Row {
  name: string;
  schema: Schema;
  required: boolean;
  description?: string | undefined;
}

function TypeOf({ schema }: { schema: Schema }): ReactNode {
  const { $ref, type, format, items, anyOf, minimum, maximum, maxLength } = schema;
  if ($ref !== undefined) return <a href={`#${nameOfRef($ref)}`}>{nameOfRef($ref)}</a>;
  if (anyOf) {
    return anyOf.map((one, index) => (
      <span key={index}>
        {index > 0 && " or "}
        <TypeOf schema={one} />
      </span>
    ));
  }
  if (items) {
    return (
      <>
        list of <TypeOf schema={items} />
      </>
    );
  }
  const limits = [
    format,
    minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}` : undefined,
    maxLength === undefined ? undefined : `at most ${maxLength.toLocaleString("en")} characters`,
  ].filter((limit) => limit !== undefined);
  return [type, ...limits].join(", ");
}

/**
 * Gives a row for each field of an object, and below it a row for each field of a nested object that has no name of its
 * own.
 */
export const rowsOf = ({ properties = {}, required = [] }: Schema, path = ""): Row[] =>
  Object.entries(properties).flatMap(([name, schema]) => {
    const inner = schema.properties ? schema : schema.items?.properties ? schema.items : undefined;
    const below = schema.items ? `${path}${name}[].` : `${path}${name}.`;
    const row = { name: path + name, schema, required: required.includes(name), description: schema.description };
    return [row, ...(inner ? rowsOf(inner, below) : [])];
  });

/** `given`: in a request, the table marks the required fields. In a response, it marks those that may be missing. */
export function Fields({ label, rows, given = false }: { label: string; rows: readonly Row[]; given?: boolean }) {
  return (
    <table>
      <caption>{label}</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, schema, required, description }) => (
          <tr key={name}>
            <th scope="row">
              <code>{name}</code>
              {given && required && <small className="required">required</small>}
              {!given && !required && <small>may be missing</small>}
            </th>
            <td>
              <span className="type">
                <TypeOf schema={schema} />
              </span>
              {description !== undefined && (
                <p>
                  <Prose>{description}</Prose>
                </p>
              )}
              {schema.enum && (
                <p className="choices">
                  {schema.enum.map((word) => (
                    <code key={word}>{word}</code>
                  ))}
                </p>
              )}
              {schema.default !== undefined && (
                <p>
                  Default <code>{String(schema.default)}</code>
                </p>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
