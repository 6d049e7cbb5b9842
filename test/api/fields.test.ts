/**
 * Whatever stands in the further fields of the API: each refusal has its code, names the field and changes nothing, and
 * what is accepted reads back as it was given (rules: Parameters, Attached files, Added fields, Sending later, Further
 * API).
 */
import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import PostalMime, { decodeWords } from "postal-mime";
import type { Answer } from "../harness/clients/api.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { runs } from "../harness/runs.ts";
import { START } from "../harness/runtime.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

interface Refused {
  code?: string;
  error?: string;
}
interface Made extends Refused {
  emailId: string;
  draftId?: string;
  revision: number;
  id: string;
  replyTo?: { email: string; name?: string }[];
  headers?: Record<string, string>;
}

const EXT = "/api/ext/v1";
const CODES: Record<number, string> = {
  400: "bad_request",
  404: "not_found",
  409: "conflict",
  413: "payload_too_large",
  422: "unprocessable",
};
const DAY = 86_400_000;

let world: ExtWorld;
/** A conversation that came in, and its message. */
let received: { threadId: string; emailId: string };
let draft: Made;
beforeAll(async () => {
  world = await bootExt();
  const { store, options } = world.core;
  store.transact((tx) => {
    for (const name of ["sending.mailboxPerHour", "sending.workspacePerHour"] as const)
      options.set(tx, name, "1000000");
  });
  received = await world.receive(ALICE, "Question", { from: `Max <${MAX}>` });
  await world.api.patch(`/threads/${received.threadId}`, { addLabels: ["Kept"] });
  draft = (await world.api.post<Made>(`${EXT}/drafts`, { to: MAX, subject: "Draft", text: "x" })).body;
  await world.server.settled();
});

/** Every row of the database, without when keys were used. */
function rows(): string {
  const { $client: sqlite } = world.core.store.db;
  const tables = sqlite
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
    .all();
  return JSON.stringify(
    tables.map(({ name }) => [
      name,
      sqlite
        .query<Record<string, unknown>, []>(`SELECT * FROM "${name}"`)
        .all()
        .map((row) => ({ ...row, last_used_at: 0 })),
    ]),
  );
}

/** Asks for something that is refused. */
async function expectRefusal(ask: () => Promise<Answer<Refused>>, status: number, says: RegExp): Promise<void> {
  const before = rows();
  const answer = await ask();
  expect<unknown>([answer.status, answer.body]).toEqual([
    status,
    { code: CODES[status], error: expect.stringMatching(says) },
  ]);
  expect(rows() === before).toBe(true);
}

const content = { text: "Hello" };
/** The requests that make a message, by the fields beside those that they require. */
const COMPOSING = {
  send: (more: object) => world.api.post<Made>("/send", { from: ALICE, to: MAX, ...content, ...more }),
  reply: (more: object) => world.api.post<Made>(`/threads/${received.threadId}/reply`, { ...content, ...more }),
  draft: (more: object) => world.api.post<Made>(`/threads/${received.threadId}/draft`, { ...content, ...more }),
  newDraft: (more: object) => world.api.post<Made>(`${EXT}/drafts`, { ...content, ...more }),
  patchDraft: (more: object) =>
    world.api.patch<Made>(`${EXT}/drafts/${draft.id}`, { revision: draft.revision, ...more }),
};
const sendDraft = (more: object) => world.api.post<Made>(`${EXT}/drafts/${draft.id}/send`, more);
type Kind = keyof typeof COMPOSING;
const ALL = Object.keys(COMPOSING) as Kind[];

interface Bad {
  value: unknown;
  status: number;
  says: RegExp;
}
const bad = <T>(status: number, says: RegExp, values: fc.Arbitrary<T>): fc.Arbitrary<Bad> =>
  values.map((value) => ({ value, status, says }));

const text = (maxLength = 20) => fc.string({ unit: anyCharacter, maxLength });
const other = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null));
const notText = fc.oneof(other, fc.constant({}), fc.constant([]));
const notList = fc.oneof(other, fc.constant({}), text());
const unknownId = fc.stringMatching(/^[a-z]{3}_[A-Za-z0-9]{1,20}$/);
const handles = fc.constantFrom("attachmentId", "emailId");
const file = { filename: "a.txt", text: "a" };
/** The item stands behind one that is in order. */
const item = (status: number, says: RegExp, values: fc.Arbitrary<unknown>) =>
  bad(
    status,
    says,
    values.map((value) => [file, value]),
  );
const notWhole = fc.oneof(fc.double({ min: 0.1, max: 0.9, noNaN: true }), text(5), fc.constant(null), fc.constant(-1));
const iso = (ms: number) => new Date(ms).toISOString();
/** Times that nothing may be put off to. */
const notLater = fc
  .oneof(fc.integer({ min: -1e12, max: 0 }), fc.integer({ min: 366 * DAY, max: 1e12 }))
  .map((distance) => iso(START + distance));
const noTime = fc.oneof(
  text().filter((value) => !/\d/.test(value)),
  fc.constantFrom("2027-01-01", "2027-02-30T00:00:00Z", "2027-01-01T00:00:00", "tomorrow", "1800000000"),
);

const FIELDS: Record<string, { of: Kind[]; values: fc.Arbitrary<Bad> }> = {
  attachments: {
    of: ALL,
    values: fc.oneof(
      bad(400, /^attachments must be a list of at most 50 items/, notList),
      bad(400, /^attachments must be a list of at most 50 items/, fc.constant(Array(51).fill(file))),
      item(400, /^attachments\[1\] must be a JSON object/, fc.oneof(other, fc.constant([]), text())),
      item(400, /^attachments\[1\] must be one of attachmentId, emailId, text and content/, fc.constant({})),
      item(400, /^attachments\[1\] must be one of .*, not several/, fc.constant({ ...file, emailId: "msg_x" })),
      item(
        400,
        /^attachments\[1\] needs a filename/,
        text().map((value) => ({ text: value })),
      ),
      item(400, /^attachments\[1\] is inline and needs a contentId/, fc.constant({ ...file, inline: true })),
      item(
        400,
        /content is not base64/,
        fc.stringMatching(/^[a-z]{4}[!-%~]{1,9}$/).map((value) => ({ filename: "a", content: value })),
      ),
      item(
        422,
        /There is no (attachment|message) .* that this key can read/,
        fc.tuple(handles, unknownId).map(([name, id]) => ({ [name]: id })),
      ),
      fc
        .constantFrom("attachmentId", "emailId", "filename", "contentType", "text", "contentId", "inline")
        .chain((name) =>
          item(
            400,
            new RegExp(`^attachments\\[1\\]\\[${name}\\] must be`),
            fc.oneof(fc.integer(), fc.constant(null), fc.constant([])).map((value) => ({ ...file, [name]: value })),
          ),
        ),
      item(
        400,
        /^attachments\[1\]\[filename\] must be text of 1 to 255/,
        fc.constantFrom("", "x".repeat(256)).map((filename) => ({ filename, text: "" })),
      ),
    ),
  },
  forward: {
    of: ["send", "newDraft"],
    values: fc.oneof(
      bad(400, /^forward must be text/, notText),
      bad(422, /forward/, fc.oneof(unknownId, fc.constant(""))),
    ),
  },
  replyTo: {
    of: ALL,
    values: fc.oneof(
      bad(400, /^replyTo must be/, fc.oneof(other, fc.constant({}), fc.constant([1]))),
      bad(422, /replyTo/, fc.stringMatching(/^[a-z]{1,9}(@|@[a-z]{1,9} [a-z]+|)$/)),
    ),
  },
  headers: {
    of: ALL,
    values: fc.oneof(
      bad(400, /^headers must be a JSON object/, fc.oneof(other, fc.constant([]), text())),
      bad(
        400,
        /^headers takes fields called X-… and List-…/,
        text()
          .filter((name) => !/^(x|list)-/i.test(name))
          .map((name) => ({ [name]: "x" })),
      ),
      bad(
        400,
        /^headers takes fields called X-… and List-…/,
        fc
          .constantFrom("X-", "List-", "X-A:", "X-A\r\nBcc", "x- a", `X-${"a".repeat(61)}`, "Subject", "Bcc")
          .map((name) => ({ [name]: "x" })),
      ),
      bad(
        400,
        /^headers: X-A must be one line of text/,
        fc.constantFrom("\r\nBcc: a@b.example", "\n", "\0", "\u0085", "\t").map((value) => ({ "X-A": `x${value}` })),
      ),
      bad(
        400,
        /^headers\[X-A\] must be text/,
        fc.oneof(notText, fc.constant("x".repeat(2_001))).map((value) => ({ "X-A": value })),
      ),
      bad(
        400,
        /^headers must be/,
        fc.constant(Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`X-${n}`, "x"]))),
      ),
    ),
  },
  sendAt: {
    of: ["send", "reply"],
    values: fc.oneof(
      bad(400, /^sendAt must be/, notText),
      bad(400, /^sendAt must be a time/, fc.oneof(notLater, noTime)),
    ),
  },
};

describe("what is refused has its code and names the field, and nothing is changed:", () => {
  test.each(Object.entries(FIELDS))("%s", async (name, { of, values }) => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...of), values, (kind, { value, status, says }) =>
        expectRefusal(() => COMPOSING[kind]({ [name]: value }), status, says),
      ),
      { numRuns: runs(60) },
    );
  });

  test("fields of other APIs, and those of other requests", async () => {
    const foreign = fc.constantFrom("reply_to", "attachment", "files", "send_at", "template");
    const asks = { ...COMPOSING, sendDraft };
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.values(asks)), foreign, fc.jsonValue(), (ask, name, value) =>
        expectRefusal(() => ask({ [name]: value }), 400, new RegExp(`^${name} is not a field of this request: `)),
      ),
      { numRuns: runs(60) },
    );
    for (const [kind, name] of [
      ["draft", "sendAt"],
      ["newDraft", "sendAt"],
      ["patchDraft", "sendAt"],
      ["patchDraft", "forward"],
      ["patchDraft", "forwardAttachments"],
    ] as const) {
      const value = name === "sendAt" ? iso(START + DAY) : name === "forward" ? received.emailId : true;
      await expectRefusal(() => COMPOSING[kind]({ [name]: value }), 400, new RegExp(`^${name} is not a field`));
    }
  });

  test("the revision of a draft", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(COMPOSING.patchDraft, sendDraft), notWhole, (ask, revision) =>
        expectRefusal(() => ask({ revision }), 400, /^revision must be a whole number/),
      ),
      { numRuns: runs(20) },
    );
    const another = fc.integer({ min: 0, max: 1e9 }).filter((revision) => revision !== draft.revision);
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(COMPOSING.patchDraft, sendDraft), another, (ask, revision) =>
        expectRefusal(() => ask({ revision, text: "Other" }), 409, /draft/),
      ),
      { numRuns: runs(20) },
    );
  });

  const patch = (path: string) => (body: object) => world.api.patch<Refused>(EXT + path, body);
  test("ids of PATCH /threads, until of snoozing, and names of labels", async () => {
    const labels = fc.oneof(fc.constant(""), fc.constant("x".repeat(61)), notText);
    const many = Array.from({ length: 101 }, (_, n) => `thr_${n}`);
    const requests: [path: () => string, name: string, more: object, values: fc.Arbitrary<unknown>][] = [
      [() => "/threads", "ids", { read: true }, fc.oneof(notList, fc.constantFrom([], ["thr_a", "thr_a"], many))],
      [() => "/threads", "ids", { read: true }, fc.oneof(notText, fc.constant("x".repeat(101))).map((id) => [id])],
      [
        () => `/threads/${received.threadId}/snooze`,
        "until",
        {},
        fc.oneof(
          notText.filter((value) => value !== null),
          notLater,
          noTime,
        ),
      ],
      [() => "/labels/Kept", "name", {}, labels],
    ];
    for (const [path, name, more, values] of requests) {
      await fc.assert(
        fc.asyncProperty(values, (value) =>
          expectRefusal(
            () => patch(path())({ ...more, [name]: value }),
            400,
            new RegExp(`^${name}(\\[0\\])? must be|^a label needs`),
          ),
        ),
        { numRuns: runs(30) },
      );
    }
    await expectRefusal(() => patch("/labels/Kept")({ name: " \t" }), 400, /a label needs/);
    await expectRefusal(() => patch("/labels/Kept")({ name: "New", colour: "red" }), 400, /^colour is not a field/);
  });

  test("queries of GET /messages and GET /changes", async () => {
    const notSeconds = fc.oneof(
      fc.integer({ min: 51 }),
      fc.integer({ max: -1 }),
      text().filter((value) => !/^\d+$/.test(value)),
    );
    const noCursor = text(30).filter((value) => !/^\d{4}-/.test(value));
    const long = (least: number) => fc.integer({ min: least, max: 3_000 }).map((length) => "x".repeat(length));
    const queries: [path: string, name: string, status: number, fc.Arbitrary<unknown>][] = [
      ["/api/v1/messages", "waitSeconds", 400, notSeconds],
      [
        "/api/v1/messages",
        "after",
        400,
        fc.oneof(
          noCursor,
          notLater.map(() => "2020-01-01T00:00:00Z"),
        ),
      ],
      ["/api/v1/messages", "messageId", 400, long(1_001)],
      ["/api/v1/messages", "threadId", 400, long(101)],
      ["/api/v1/messages", "from", 400, long(321)],
      [`${EXT}/changes`, "waitSeconds", 400, notSeconds],
      [`${EXT}/changes`, "after", 400, noCursor],
      [`${EXT}/changes`, "mailbox", 404, unknownId],
    ];
    for (const [path, name, status, values] of queries) {
      await fc.assert(
        fc.asyncProperty(values, (value) =>
          expectRefusal(
            () => world.api.get(`${path}?${name}=${encodeURIComponent(String(value))}`),
            status,
            new RegExp(name),
          ),
        ),
        { numRuns: runs(30) },
      );
    }
  });
});

test("any JSON in any field is accepted, or refused with a code and without a trace", async () => {
  const asks: [ask: (more: object) => Promise<Answer<Refused>>, names: string[]][] = [
    ...ALL.map((kind): [typeof COMPOSING.send, string[]] => [
      COMPOSING[kind],
      [
        "attachments",
        "forward",
        "replyTo",
        "headers",
        "sendAt",
        "to",
        "cc",
        "from",
        "subject",
        "quote",
        "forwardAttachments",
      ],
    ]),
    [(more) => world.api.post(`${EXT}/drafts/thr_none/send`, more), ["revision", "sendAt", "idempotencyKey"]],
    [
      (more) => world.api.patch(`${EXT}/threads`, { ids: [received.threadId], ...more }),
      ["ids", "labels", "addLabels", "removeLabels", "folder", "read"],
    ],
    [(more) => world.api.patch(`${EXT}/threads/${received.threadId}/snooze`, more), ["until"]],
    [(more) => world.api.patch(`${EXT}/labels/None`, more), ["name"]],
  ];
  const values = fc.oneof(
    fc.jsonValue(),
    text(),
    fc.array(
      fc.dictionary(
        fc.constantFrom("attachmentId", "emailId", "filename", "text", "content", "inline", "contentId", "contentType"),
        fc.oneof(text(), fc.jsonValue()),
      ),
      { maxLength: 3 },
    ),
    fc.dictionary(
      fc.constantFrom("X-A", "x-b", "List-Id", "__proto__", "constructor"),
      fc.oneof(text(), fc.jsonValue()),
    ),
  );
  const request = fc
    .constantFrom(...asks)
    .chain(([ask, names]) =>
      fc.tuple(fc.constant(ask), fc.dictionary(fc.constantFrom(...names), values, { minKeys: 1, maxKeys: 3 })),
    );
  await fc.assert(
    fc.asyncProperty(request, async ([ask, more]) => {
      await world.server.settled();
      const before = rows();
      const { status, body } = await ask(more);
      if (status < 300) {
        if (ask === COMPOSING.patchDraft) draft = body as Made;
        return;
      }
      expect<unknown>([status < 500, body]).toEqual([true, { code: CODES[status], error: expect.any(String) }]);
      expect(rows() === before).toBe(true);
    }),
    { numRuns: runs(300) },
  );
});

describe("what is accepted reads back as it was given:", () => {
  const word = fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/);
  /** A line as a header has it: no control characters, no white space around it. */
  const line = text(40)
    .map((value) => value.replace(/\p{Cc}/gu, " ").trim())
    .filter((value) => value !== "");
  const address = fc.record(
    {
      email: word.map((local) => `${local}@remote.example`),
      name: fc.stringMatching(/^[a-zé漢"\\,<>@();:.]{1,20}( [A-Zü]{1,9})?$/),
    },
    { requiredKeys: ["email"] },
  );
  const written = ({ email, name }: { email: string; name?: string }): string =>
    name === undefined ? email : `"${name.replace(/["\\]/g, "\\$&")}" <${email}>`;
  const bytes = fc.uint8Array({ maxLength: 200 }).map((octets) => Buffer.from(octets));
  const filename = fc.stringMatching(/^[a-z0-9é漢][a-z0-9é漢 ]{0,19}$/).map((name) => `${name}.bin`);
  const given = fc.record(
    {
      replyTo: fc.array(address, { minLength: 1, maxLength: 3 }),
      headers: fc.dictionary(fc.stringMatching(/^(X|List)-[A-Za-z0-9_-]{1,20}$/), line, { maxKeys: 4 }),
      attachments: fc.array(
        fc.record({ filename, content: bytes, contentType: fc.constantFrom("image/png", "application/x-a") }),
        { maxLength: 3 },
      ),
    },
    { requiredKeys: [] },
  );

  test("attachments, replyTo and headers of every request that makes a message", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...ALL), given, async (kind, { replyTo, headers, attachments }) => {
        // A patch keeps what it leaves out.
        const fields =
          kind === "patchDraft"
            ? { replyTo: replyTo ?? [], headers: headers ?? {}, attachments: attachments ?? [] }
            : { replyTo, headers, attachments };
        const { status, body } = await COMPOSING[kind]({
          ...fields,
          replyTo: fields.replyTo?.map(written),
          attachments: fields.attachments?.map((one) => ({ ...one, content: one.content.toString("base64") })),
        });
        expect([status < 300, body.error]).toEqual([true, undefined]);
        if (kind === "patchDraft") draft = body;
        const stored =
          body.draftId === undefined ? undefined : (await world.api.get<Made>(`${EXT}/drafts/${body.draftId}`)).body;
        if (stored !== undefined) {
          expect([stored.replyTo, stored.headers ?? {}]).toEqual([replyTo, headers ?? {}]);
        }
        const raw = await world.api.bytes(`/messages/${stored?.emailId ?? body.emailId}/raw`);
        const parsed = await PostalMime.parse(raw.body);
        expect(
          parsed.attachments.map(({ filename, mimeType, content }) => [
            filename,
            mimeType,
            Buffer.from(content as ArrayBuffer).toString("hex"),
          ]),
        ).toEqual((attachments ?? []).map((one) => [one.filename, one.contentType, one.content.toString("hex")]));
        for (const [name, value] of Object.entries(headers ?? {})) {
          expect(
            parsed.headers.filter(({ originalKey }) => originalKey === name).map((header) => decodeWords(header.value)),
          ).toEqual([value]);
        }
        expect(parsed.replyTo?.map(({ address: email, name }) => (name ? { email, name } : { email }))).toEqual(
          replyTo,
        );
      }),
      { numRuns: runs(40) },
    );
  });

  /** Times to put something off to, in any offset. */
  const later = fc
    .record({ ms: fc.integer({ min: 60_000, max: 365 * DAY }), hours: fc.integer({ min: -12, max: 14 }) })
    .map(({ ms, hours }) => {
      const at = START + ms;
      const offset = `${hours < 0 ? "-" : "+"}${String(Math.abs(hours)).padStart(2, "0")}:00`;
      return { at: iso(at), text: iso(at + hours * 3_600_000).replace("Z", offset) };
    });

  test("sendAt, and until of snoozing", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("send", "reply"),
        later,
        async (kind: "send" | "reply", { at, text: sendAt }) => {
          const { status, body } = await COMPOSING[kind]({ sendAt });
          expect([status, body]).toEqual([
            202,
            expect.objectContaining({ scheduled: true, sendAt: at, emailId: null }),
          ]);
          const path = `${EXT}/drafts/${body.draftId}`;
          expect((await world.api.get<{ sendAt: string }>(path)).body.sendAt).toBe(at);
          expect((await world.api.delete(path)).status).toBe(200);
          const snoozed = await world.api.patch<{ thread: object }>(`${EXT}/threads/${received.threadId}/snooze`, {
            until: sendAt,
          });
          expect([snoozed.status, snoozed.body.thread]).toEqual([200, expect.objectContaining({ snoozedUntil: at })]);
          const ended = await world.api.patch<{ thread: object }>(`${EXT}/threads/${received.threadId}/snooze`, {
            until: null,
          });
          expect(ended.body.thread).not.toHaveProperty("snoozedUntil");
        },
      ),
      { numRuns: runs(15) },
    );
  });

  test("labels, for many conversations at once, and under a new name", async () => {
    const ids = [received.threadId, (await world.receive(ALICE, "Another")).threadId];
    const label = text(30)
      .map((value) => value.trim())
      .filter((value) => value !== "");
    const labelsOf = async (): Promise<string[][]> =>
      Promise.all(
        ids.map(
          async (id) => (await world.api.get<{ thread: { labels: string[] } }>(`/threads/${id}`)).body.thread.labels,
        ),
      );
    await fc.assert(
      fc.asyncProperty(label, label, fc.uniqueArray(unknownId, { maxLength: 3 }), async (first, second, unknown) => {
        const changed = await world.api.patch<{ threads: object[]; refused: { id: string; code: string }[] }>(
          `${EXT}/threads`,
          { ids: [...unknown, ...ids], labels: [first] },
        );
        expect([changed.status, changed.body.threads.length]).toEqual([200, 2]);
        expect(changed.body.refused.map(({ id, code }) => [id, code])).toEqual(unknown.map((id) => [id, "not_found"]));
        expect(await labelsOf()).toEqual([[first], [first]]);
        const renamed = await world.api.patch<{ threads: number }>(`${EXT}/labels/${encodeURIComponent(first)}`, {
          name: second,
        });
        expect([renamed.status, renamed.body]).toEqual([200, { threads: first === second ? 0 : 2 }]);
        expect(await labelsOf()).toEqual([[second], [second]]);
        const listed = await world.api.get<{ labels: { name: string; threads: number }[] }>(`${EXT}/labels?limit=100`);
        expect(listed.body.labels).toEqual([{ name: second, threads: 2 }]);
        const removed = await world.api.delete<{ threads: number }>(`${EXT}/labels/${encodeURIComponent(second)}`);
        expect([removed.status, removed.body]).toEqual([200, { threads: 2 }]);
      }),
      { numRuns: runs(40) },
    );
  });

  test("text that filters messages finds those that have it, and no others", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom("messageId", "threadId", "from"), text(60), async (name, value) => {
        const { status, body } = await world.api.get<{ messages: object[] }>(
          `/messages?${name}=${encodeURIComponent(value)}`,
        );
        expect([status, body.messages]).toEqual([200, []]);
      }),
      { numRuns: runs(60) },
    );
  });
});
