/** Tables of fields: name, type, whether it has to be there, and what it means. Fields of nested objects stand by their path. */
import type { ReactNode } from "react";
import { Prose } from "./code.tsx";
import { nameOfRef, type Schema } from "./document.ts";

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

/** The fields of an object, and below each that is an object without a name of its own, its fields. */
export const rowsOf = ({ properties = {}, required = [] }: Schema, path = ""): Row[] =>
  Object.entries(properties).flatMap(([name, schema]) => {
    const inner = schema.properties ? schema : schema.items?.properties ? schema.items : undefined;
    const below = schema.items ? `${path}${name}[].` : `${path}${name}.`;
    const row = { name: path + name, schema, required: required.includes(name), description: schema.description };
    return [row, ...(inner ? rowsOf(inner, below) : [])];
  });

/** `label` says what they are fields of; `given`: of a request, where it is told which must be there, else which may be missing. */
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
