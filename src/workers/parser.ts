/**
 * A parser: a process of parser-pool.ts that reads what strangers sent. It composes messages, also the octets of stored ones,
 * prepares them for filing, writes their attachments durably, authenticates arriving mail, signs mail that is sent, and
 * extracts the text of documents. It has no environment, does not open the database, and asks DNS through the server. It
 * reports ready once its code is loaded; from then on its silence and its memory are limited (slot.ts).
 */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withoutDkimSignatures, writeDkimSignatures } from "../authentication/dkim.ts";
import { type Authentication, findOrganizationalDomains, judgeAuthentication } from "../authentication/dmarc.ts";
import { gatherAuthenticationEvidence, gatherHeaderEvidence, type SmtpContext } from "../authentication/evidence.ts";
import type { DNSResolver } from "../authentication/mailauth.ts";
import { formatTraceFields } from "../authentication/trace-fields.ts";
import { encodeChildMessage, hearParent, tellParent } from "../base/child-messages.ts";
import { collectGarbage, LARGE_BYTES } from "../base/memory.ts";
import { type RecordType, systemRuntime } from "../base/runtime.ts";
import { keepComposed } from "../mailbox/filing/keep-composed.ts";
import { type CutOctets, keepOctets } from "../mailbox/filing/keep-octets.ts";
import { type PreparedMessage, prepareMessage, readForFiling } from "../mailbox/filing/prepare.ts";
import { composeOctets, describeOctets } from "../mailbox/reading/composers.ts";
import { authorsIn } from "../message/address.ts";
import { isComposition, serializeComposition } from "../message/composition.ts";
import { chooseBytesToVerify, withoutNul } from "../message/headers.ts";
import { performReading } from "../message/reading.ts";
import { recodeForTransport, UNKNOWN_SERVER } from "../message/recode.ts";
import { type Answer, isDnsAnswerFresh } from "../net/dns-cache.ts";
import { readMessageSource } from "../smtp/spool.ts";
import { type FileBlobs, openBlobs } from "../store/blobs.ts";
import {
  type DnsQuestion,
  type FromParser,
  type Job,
  joinSignedMessage,
  LARGEST_MESSAGE,
  type Prepared,
  type Question,
  type RecodingJob,
  type Signature,
  type SigningOrder,
  type Stage,
  storeOutboundContent,
  type ToParser,
} from "./jobs.ts";

type QuestionAsked = Omit<DnsQuestion, "number"> | Omit<Exclude<Question, DnsQuestion>, "number">;

const runtime = systemRuntime();

/** State that one job leaves to the next of the same appliance. */
interface JobState {
  blobFolder: string;
  blobs: FileBlobs;
  /** Recent DNS answers: mail that arrives together asks the same questions, and asking costs both processes time. */
  recent: Map<string, Answer>;
}
const MOST_RECENT = 500;
let jobState: JobState | undefined;

function getJobState(blobFolder: string): JobState {
  if (jobState?.blobFolder !== blobFolder) {
    jobState = { blobFolder, blobs: openBlobs(blobFolder, runtime), recent: new Map() };
  }
  return jobState;
}

/** Unanswered questions, by number. */
const asked = new Map<number, (answer: Answer | Signature) => void>();
let questions = 0;

/** Asks the server for the sake of a job. The answer is of the question's kind. */
function askServer<A extends Answer | Signature>(id: number, question: QuestionAsked): Promise<A> {
  const number = ++questions;
  return new Promise((resolve) => {
    asked.set(number, resolve as (answer: Answer | Signature) => void);
    say({ id, question: { ...question, number } });
  });
}

/** A large message has been read since the last collection of garbage. */
let readLarge = false;

const say = (message: FromParser): void => tellParent(encodeChildMessage(message));

async function run(job: Job & { id: number; reply: string }): Promise<void> {
  const result = await perform(job);
  if (readLarge) {
    readLarge = false;
    // First, since the server takes memory for a large result.
    await collectGarbage();
  }
  tellParent(result);
}

/** The message that ends a job; a large result is in the file for it. */
async function perform({ id, reply, ...job }: Job & { id: number; reply: string }): Promise<Uint8Array> {
  try {
    const done = encodeChildMessage({ id, result: await prepare(id, job) } satisfies FromParser);
    if (done.byteLength <= LARGEST_MESSAGE) return done;
    // A server that starts beside a command empties the folder.
    await mkdir(dirname(reply), { recursive: true, mode: 0o700 });
    await writeFile(reply, done, { mode: 0o600 });
    return encodeChildMessage({ id } satisfies FromParser);
  } catch (error) {
    const { name, message, stack, code } = error as NodeJS.ErrnoException;
    // What is no error of the system may quote the message.
    const failure = { message: code === undefined ? name : message, stack, code };
    return encodeChildMessage({ id, failure } satisfies FromParser);
  }
}

async function prepare(id: number, job: Job): Promise<Prepared> {
  if ("reading" in job) return { read: await performReading(job.reading) };
  if ("octets" in job) return { octets: await composeJobOctets(job) };
  if ("composed" in job) {
    const { read, write, staged } = openJobBlobs(job);
    return { kept: await keepComposed(job.composed, { read, write }), staged };
  }
  if ("recoding" in job) return await recoded(id, job);
  if ("document" in job || "invitation" in job) {
    const { performDocumentJob } = await import("./document-jobs.ts");
    readLarge = true;
    return performDocumentJob(job, runtime.now);
  }
  const { source, blobFolder, smtpContext, isJudged, shownFrom, headerOnly, signing, isTransferred } = job;
  const { lines = "", isBcc = false, hostname } = job.top ?? {};
  const top = { lines: Buffer.from(lines), bcc: isBcc ? Buffer.byteLength(lines) : 0, ...(hostname && { hostname }) };
  const { recent } = getJobState(blobFolder);
  const { read, write, staged } = openJobBlobs(job);
  const came = isComposition(source) ? await serializeComposition(source, read) : await readMessageSource(source);
  readLarge ||= came.byteLength > LARGE_BYTES;
  // Its attachments, and the pieces of their encoding.
  if (isComposition(source) && came.byteLength > LARGE_BYTES) await collectGarbage();
  const bytes = withoutNul(came);
  const signed = chooseBytesToVerify(came, bytes);
  if (smtpContext && shownFrom !== undefined) {
    const shown = async () => ({ authors: authorsIn([`<${shownFrom}>`]) });
    const gather = headerOnly ? gatherHeaderEvidence : gatherAuthenticationEvidence;
    return { authentication: (await authenticate(id, recent, signed, smtpContext, shown, gather)).authentication };
  }
  if (smtpContext) {
    let cut: CutOctets | undefined;
    const prepared = await authenticate(id, recent, signed, smtpContext, async () => {
      const read = await readForFiling(bytes, { write }, { isJudged });
      ({ cut } = read);
      return read.message;
    });
    const { message, authentication } = prepared;
    // The server's own results go on top of the header (RFC 8601 §4.1).
    message.headers.unshift(["Authentication-Results", authentication.results]);
    const fields = Buffer.from(formatTraceFields(smtpContext, authentication.results));
    const above = { lines: fields, hostname: smtpContext.hostname };
    message.octets = await keepOctets(cut as CutOctets, above, { write });
    return { ...prepared, staged };
  }
  const written = signing !== undefined || isTransferred === true || isComposition(source);
  if (!signing) return { message: await prepareMessage(bytes, { write }, { written, top }), staged };
  const leaving = await recodeForTransport(bytes, UNKNOWN_SERVER);
  const signatures = await createSignatures(id, leaving, signing);
  const content = await storeOutboundContent({ write }, signatures, leaving);
  // A signature over re-encoded octets does not hold for these.
  const above = { ...top, lines: Buffer.concat([top.lines, leaving === bytes ? signatures : new Uint8Array()]) };
  return { message: await prepareMessage(bytes, { write }, { written, top: above }), content, staged };
}

/** The signatures of a message, made with keys that the server has. */
async function createSignatures(id: number, message: Uint8Array, { signers, signedAt }: SigningOrder): Promise<Buffer> {
  const signature = async (signer: number, header: Uint8Array): Promise<Uint8Array> => {
    const answer = await askServer<Signature>(id, { signer, header });
    if ("signature" in answer) return answer.signature;
    throw Object.assign(new Error(answer.unsigned), { code: "ENOSIGNATURE" });
  };
  return Buffer.from(await writeDkimSignatures(message, signers, signedAt, signature), "latin1");
}

async function recoded(id: number, { source, recoding: { takes, signing } }: RecodingJob): Promise<Prepared> {
  const content = await readMessageSource(source);
  readLarge ||= content.byteLength > LARGE_BYTES;
  const message = withoutDkimSignatures(content);
  const leaving = await recodeForTransport(message, takes);
  return leaving === message
    ? {}
    : { content: { bytes: joinSignedMessage(await createSignatures(id, leaving, signing), leaving) } };
}

/** How a job reads and writes blobs. `staged`: those that it wrote into its stage. */
function openJobBlobs({ blobFolder, stage, stageOnly }: { blobFolder: string; stage?: string; stageOnly?: true }) {
  const { blobs } = getJobState(blobFolder);
  const staged: Required<Prepared>["staged"] = [];
  async function writeStaged(...pieces: readonly Uint8Array[]): Promise<string> {
    const { name, file } = await blobs.writeStaged(pieces, stage ?? "", { alwaysWritten: stageOnly });
    if (file !== undefined) staged.push({ name, file });
    return name;
  }
  return {
    read: stageOnly && stage !== undefined ? readIn(stage) : blobs.read,
    write: stage === undefined ? blobs.write : writeStaged,
    staged,
  };
}

/** Reads blobs that were lent. */
const readIn =
  (stage: string) =>
  (name: string): Promise<Uint8Array> =>
    Bun.file(join(stage, name)).bytes();

async function composeJobOctets({ octets, file, stage, blobFolder }: Extract<Job, { octets: unknown }>) {
  const read = stage === undefined ? getJobState(blobFolder).blobs.read : readIn(stage);
  const composed = await composeOctets(octets, read);
  const { bytes } = composed.content;
  readLarge ||= bytes.byteLength > LARGE_BYTES;
  if (file !== undefined) await Bun.write(file, bytes, { mode: 0o600 });
  return describeOctets(composed);
}

/**
 * Authenticates a message. `read` returns it and runs before any DNS question: a message that waits for DNS makes room
 * for another, so its slow work must be done by then.
 */
async function authenticate<M extends Pick<PreparedMessage, "authors" | "report">>(
  id: number,
  recent: JobState["recent"],
  signed: Uint8Array,
  smtpContext: SmtpContext,
  read: () => Promise<M>,
  gather = gatherAuthenticationEvidence,
): Promise<{ message: M; authentication: Authentication }> {
  const ask = (stage: Stage) => resolver(id, recent, stage, smtpContext.now);
  const message = await read();
  const evidence = await gather(signed, smtpContext, ask("evidence"));
  const asking = ask("policy");
  const authentication = await judgeAuthentication(evidence, message.authors, smtpContext, asking);
  if (message.report) authentication.organizations = await findOrganizationalDomains(evidence, asking);
  return { message, authentication };
}

/**
 * A resolver for one message and stage. Asks the main thread each question without a recent answer that is valid at
 * `now`, once per message. Rejects with the codes of dns-cache.ts.
 */
function resolver(id: number, recent: JobState["recent"], stage: Stage, now: number): DNSResolver {
  const known = new Map<string, Promise<string[]>>();
  const askAnew = async (key: string, name: string, type: RecordType): Promise<Answer> => {
    const answer = await askServer<Answer>(id, { name, type, stage });
    recent.delete(key);
    if (isDnsAnswerFresh(answer, now)) recent.set(key, answer);
    for (const oldest of recent.keys()) {
      if (recent.size <= MOST_RECENT) break;
      recent.delete(oldest);
    }
    return answer;
  };
  const ask = async (key: string, name: string, type: string): Promise<string[]> => {
    const before = recent.get(key);
    const answer = before && isDnsAnswerFresh(before, now) ? before : await askAnew(key, name, type as RecordType);
    // mailauth takes records as they are, a text of TXT too, but its type covers only some.
    if ("records" in answer) return answer.records as string[];
    throw Object.assign(new Error(`${type} of ${name}: ${answer.code}`), { code: answer.code });
  };
  return (name, type) => {
    const key = `${type} ${name}`;
    const first = known.get(key) ?? ask(key, name, type);
    known.set(key, first);
    return first;
  };
}

hearParent((said) => {
  const message = said as ToParser;
  if (!("answer" in message)) return void run(message);
  asked.get(message.number)?.(message.answer);
  asked.delete(message.number);
});
say({ ready: true });
