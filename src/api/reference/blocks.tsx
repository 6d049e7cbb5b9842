/**
 * Blocks of the reference: code with coloured words, and tables of fields. A table has the name of each field, its
 * type, its meaning, and says when it must be given or may be missing. The fields of nested objects stand by their
 * path.
 */
import type { ReactNode } from "react";
import { type Schema, schemaNameInRef } from "./openapi-document.ts";
import { CREDENTIALS, type Language, type Snippet } from "./snippets.ts";

type Notation = "json" | Language;

const TOKENS: Record<Notation, RegExp> = {
  json: /(?<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?<text>"(?:[^"\\]|\\.)*")|(?<word>\b(?:true|false|null)\b|-?\b\d[\d.]*\b)/g,
  python:
    /(?<text>f?"(?:[^"\\]|\\.)*")|(?<key>#.*)|(?<word>\b(?:import|def|return|with|as|if|for|in|not|or|True|False|None)\b)/g,
  javascript:
    /(?<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?<key>\/\/ .*)|(?<word>\b(?:import|export|from|const|new|await|function|return|if|throw|true|false|null)\b)/g,
  shell: /(?<word>^curl\b)|(?<key>(?<=\s)--?[A-Za-z][\w-]*|^#.*)|(?<text>'[^']*'|"[^"]*")/gm,
};

function highlighted(text: string, notation: Notation): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS[notation])) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? [];
    parts.push(text.slice(end, match.index));
    parts.push(
      <span key={match.index} className={`token-${kind}`}>
        {withCredential(match[0], notation)}
      </span>,
    );
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** Marks where the API key stands, so that the page's script can put a key of the reader's there. */
function withCredential(text: string, notation: Notation): ReactNode {
  if (notation === "json") return text;
  const { text: credential, filled } = CREDENTIALS[notation];
  const [before, after] = text.split(credential);
  if (after === undefined) return text;
  return (
    <>
      {before}
      <span data-filled={filled}>{credential}</span>
      {after}
    </>
  );
}

/** A piece of code under its title. The page's script (app/reference/browser.ts) adds a button that copies it. */
export function Code({ title, language, text }: { title: string; language: Notation; text: string }) {
  return (
    <figure className="code">
      <figcaption>{title}</figcaption>
      <pre>
        <code>{highlighted(text, language)}</code>
      </pre>
    </figure>
  );
}

/** A piece of code in several languages, of which the reader chooses one. `what`: as the beginning of a title. */
export function Snippets({ of, what, snippets }: { of: string; what: string; snippets: readonly Snippet[] }) {
  return (
    <div className="snippets">
      <fieldset>
        <legend className="unseen">Language of: {what}</legend>
        {snippets.map(({ name, language }, index) => (
          <label key={name}>
            <input type="radio" name={`${of}-language`} value={language} defaultChecked={index === 0} />
            {name}
          </label>
        ))}
      </fieldset>
      {snippets.map(({ name, language, text }) => (
        <Code
          key={name}
          title={`${what}, ${name === "curl" ? "with" : "in"} ${name === "Shell" ? "the shell" : name}`}
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

const FORMATS: Record<string, string> = {
  email: "email address",
  "date-time": "time (ISO 8601)",
  uri: "URL",
};

/** The type of a value in words; of several, if it is in a list. */
function TypeInWords({ schema, several = false }: { schema: Schema; several?: boolean }): ReactNode {
  const { $ref, type, format, items, anyOf, minimum, maximum, maxLength } = schema;
  if ($ref !== undefined) return <a href={`#${schemaNameInRef($ref)}`}>{schemaNameInRef($ref)}</a>;
  const choices = anyOf ?? (Array.isArray(type) ? type.map((one) => ({ ...schema, type: one })) : undefined);
  if (choices) {
    return choices.map((one, index) => (
      <span key={index}>
        {index > 0 && " or "}
        <TypeInWords schema={one} several={several} />
      </span>
    ));
  }
  if (items) {
    return (
      <>
        {several ? "lists" : "list"} of <TypeInWords schema={items} several />
      </>
    );
  }
  const named = (format !== undefined && FORMATS[format]) || (type === "array" ? "list" : type);
  const limits = [
    minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}` : undefined,
    maxLength === undefined ? undefined : `at most ${maxLength.toLocaleString("en")} characters`,
  ].filter((limit) => limit !== undefined);
  const isWord = named === type && type !== "null";
  return [several && isWord ? `${named}s` : named, ...limits].join(", ");
}

/**
 * Gives a row for each field of an object, and below it a row for each field of a nested object that has no name of its
 * own.
 */
export const listSchemaRows = ({ properties = {}, required = [] }: Schema, path = ""): Row[] =>
  Object.entries(properties).flatMap(([name, schema]) => {
    const inner = schema.properties ? schema : schema.items?.properties ? schema.items : undefined;
    const below = schema.items ? `${path}${name}[].` : `${path}${name}.`;
    const row = { name: path + name, schema, required: required.includes(name), description: schema.description };
    return [row, ...(inner ? listSchemaRows(inner, below) : [])];
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
                <TypeInWords schema={schema} />
              </span>
              {description !== undefined && (
                <p>
                  <Prose>{description}</Prose>
                </p>
              )}
              {schema.enum && (
                <p className="choices">
                  {schema.enum.map((word) => (
                    <code key={String(word)}>{String(word)}</code>
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
