/**
 * Every time of a request is read alike, whichever operation takes it (RFC 3339 §5.6; rules: Parameters): over the APIs
 * with a key, and over the app's own API for a session.
 */
import { beforeAll, expect, test } from "bun:test";
import { ADMIN_API, EXT_API, MAIL_API, type Surface } from "../../src/api/surfaces.ts";
import type { Schema } from "../../src/base/json-schema.ts";
import { toIsoTime } from "../../src/base/time.ts";
import { APP_OPERATIONS } from "../../src/operations/operations.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { START } from "../harness/runtime.ts";
import { bootExamples, type ExampleWorld } from "../harness/servers/examples.ts";

/** Yields the places of times in a schema. */
function* timesIn(schema: Schema | undefined, at: string[] = []): Generator<string[]> {
  if (schema?.format === "date-time") yield at;
  for (const part of schema?.anyOf ?? []) yield* timesIn(part, at);
  for (const [name, part] of Object.entries<Schema>(schema?.properties ?? {})) yield* timesIn(part, [...at, name]);
  if (schema?.items) yield* timesIn(schema.items, [...at, "0"]);
}

const operations = [
  ...[MAIL_API, EXT_API, ADMIN_API].flatMap((surface) =>
    surface.operations.map((operation) => ({ surface, operation })),
  ),
  ...APP_OPERATIONS.map((operation) => ({ surface: undefined, operation })),
];
const cases = operations.flatMap((one) =>
  (["query", "body"] as const).flatMap((part) =>
    [...timesIn(one.operation[part])].map((at) => ({
      ...one,
      part,
      at,
      name: `${one.operation.name} ${at.join(".")}`,
    })),
  ),
);

const DAY = 86_400_000;
const HALF = toIsoTime(START + DAY).replace(/:00\.000Z$/, "");
const FORMS = ["Z", ":00z", ":00.000000001Z", ":00+00:00", "-00:00"]
  .map((end) => HALF + end)
  .concat(`${HALF.replace("T", " ")}Z`);
const WRONG = [
  "",
  "tomorrow",
  "1800000000",
  HALF,
  `${HALF}:00`,
  `${HALF}:60Z`,
  `${HALF}+24:00`,
  HALF.replace(/T.*/, ""),
  HALF.replace(/T.*/, "T24:00:00Z"),
  "2026-02-30T00:00:00Z",
  `${HALF}:00.${"0".repeat(60)}Z`,
];

const absence = { from: toIsoTime(START), until: toIsoTime(START + 9 * DAY), text: "Away" };
let count = 0;
/** The body of a request, but for its time, where it is not that of the example. */
const BODIES: Record<string, () => object> = {
  addMailbox: () => ({ address: `made-at${++count}@example.com`, name: "Made" }),
  setAbsence: () => absence,
  setOwnAbsence: () => absence,
  changeThreads: () => ({ ids: ["thr_x"] }),
  approveAuthorization: () => ({ scopes: [], policy: {} }),
  sendOpenedDraft: () => ({
    ...{ from: "ada@example.com", to: "", cc: "", bcc: "", subject: "", text: "" },
    ...{ revision: 1, attachments: [] },
  }),
};

let world: ExampleWorld;
let app: Page;
beforeAll(async () => {
  world = await bootExamples();
  await setPassword(world, world.userId);
  app = await signIn(world, "ada@example.com");
}, 120_000);

/** Returns a copy of a value with a text at a place. */
const withText = (value: unknown, [name, ...rest]: string[], text: string): unknown =>
  name === undefined
    ? text
    : { ...(value as object), [name]: withText((value as Record<string, unknown>)?.[name], rest, text) };

/** Makes what the path of a request names; returns how to ask with a text in the place of the time. */
async function prepared({ surface, operation, part, at }: (typeof cases)[number]) {
  const path = surface
    ? world.http + surface.prefix + (await filled(surface, operation.path))
    : operation.path.replaceAll(/:\w+/g, "x");
  return async (text: string): Promise<{ status: number; error: string | undefined }> => {
    const example = "example" in operation ? operation.example?.body : {};
    const body = BODIES[operation.name]?.() ?? example;
    const query = part === "query" ? `?${new URLSearchParams({ [at.join()]: text })}` : "";
    const headers = { "content-type": "application/json" };
    const init = {
      method: operation.method,
      ...(operation.body && { body: JSON.stringify(part === "body" ? withText(body, at, text) : body) }),
    };
    const answer = surface
      ? await fetch(path + query, { ...init, headers: { ...headers, authorization: `Bearer ${world.key}` } })
      : await app.fetch(path + query, { ...init, headers });
    return { status: answer.status, error: ((await answer.json()) as { error?: string }).error };
  };
}

async function filled(surface: Surface, path: string): Promise<string> {
  const params = await world.paramsFor(surface, path.replaceAll(/:(\w+)/g, "{$1}"));
  return path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
}

test("the operations that take a time are found", () => {
  expect(cases.length).toBeGreaterThan(15);
});

test.each(cases)(
  "$name",
  async (one) => {
    // What is accepted may use up what the path names; what is refused leaves it as it is.
    const accepted = async (text: string) => (await prepared(one))(text);
    const full = await accepted(`${HALF}:00Z`);
    expect(full).not.toMatchObject({ status: 400 });
    for (const text of FORMS) expect({ text, ...(await accepted(text)) }).toMatchObject({ text, status: full.status });
    const refused = await prepared(one);
    for (const text of WRONG) {
      const error = expect.stringContaining("must be a time as in 2030-01-07T08:00:00Z");
      expect({ text, ...(await refused(text)) }).toEqual({ text, status: 400, error });
    }
  },
  60_000,
);
