/** The messages between the pool of readers and its readers, and the check of what readers say. */
import { type ErrorCode, STATUS_OF_CODE } from "../base/errors.ts";
import { compileSchemaCheck, type Schema, type Static, stringEnum, t } from "../base/json-schema.ts";

/** An inquiry by its name. `now`: epoch ms; `reply`: the file for an answer that is too large for a message. */
export interface ToReader {
  id: number;
  name: string;
  given: unknown;
  now: number;
  reply: string;
}

const id = t.Integer();
const Refusal = t.Object({
  code: stringEnum(Object.keys(STATUS_OF_CODE) as ErrorCode[]),
  message: t.String(),
  status: t.Integer(),
  retryAfter: t.Optional(t.Number()),
});
const Failure = t.Object({ message: t.String(), stack: t.String() });

/** The end of an inquiry; without anything else where the answer is in the file for the reply. */
const ReaderReply = t.Object({
  id,
  answer: t.Optional(t.Unknown()),
  refusal: t.Optional(Refusal),
  failure: t.Optional(Failure),
});
export type ReaderReply = Static<typeof ReaderReply>;

const FromReader = t.Union([t.Object({ ready: t.Literal(true) }), ReaderReply]);
export type FromReader = Static<typeof FromReader>;

/** Checks a value that a reader gave. @throws Error for one that the schema does not allow */
function checkReaderValue<T>(schema: Schema, value: unknown): T {
  const fault = compileSchemaCheck(schema, "answer")(value);
  if (fault) throw new Error(`a reader gave something else at /${fault.path.join("/")}: ${fault.message}`);
  return value as T;
}

/** A message of a reader. @throws Error for any other value */
export const checkReaderMessage = (message: unknown): FromReader => checkReaderValue(FromReader, message);

/** An answer to an inquiry. @throws Error for any other value */
export const checkAnswer = (answer: unknown, schema: Schema): unknown => checkReaderValue(schema, answer);
