/**
 * Has many ask for the costliest searches of a seeded mailbox, each for one after the other, while real mail arrives steadily and
 * somebody asks for the health page; and measures how long all of them wait.
 */
import { corpusPresent } from "../harness/mail/corpus.ts";
import { labelledPresent } from "../harness/mail/labelled-mail.ts";
import { written } from "./figures.ts";
import { messageMaker, wordAt } from "./generator.ts";
import { realMail } from "./real-mail.ts";
import { COMMON_WORD, PHRASE } from "./seed.ts";
import { pump } from "./smtp-load.ts";

const PROBE_MS = 20;
const CONNECTIONS = 20;

/** Words of a tenth and of most of the mail, by relevance, as a phrase, without others, in a range. */
const SEARCHES: readonly ((n: number) => string)[] = [
  (n) => `q=${written(COMMON_WORD, n)}`,
  (n) => `q=${written(wordAt(3), n)}+${wordAt(5)}&sort=relevance`,
  (n) => `q="${written(PHRASE, n)}"`,
  (n) => `q=${written(wordAt(1), n)}+-${COMMON_WORD}`,
  (n) => `q=${written(wordAt(2), n)}+after:2023-01-05+larger:500`,
];

/** Mail that people wrote where there is some, else generated. */
export const arrivingMail = (to: string): ((n: number) => Buffer) =>
  labelledPresent || corpusPresent ? realMail() : messageMaker(17, 8_600, to);

export interface ReadingLoad {
  /** `http://host:port` */
  http: string;
  mxPort: number;
  to: string;
  /** A key for each reader. */
  keys: readonly string[];
  seconds: number;
  /** Messages. */
  perSecond: number;
  message: (n: number) => Buffer;
}

/** Times that everything took, ms. */
export interface ReadingTimes {
  health: number[];
  /** From the last byte of a message to its 250. */
  accepted: number[];
  searches: number[];
  /** Statuses of answers other than 200. */
  refused: number[];
  /** Messages that arrived, a second. */
  rate: number;
}

export async function readBesideMail(load: ReadingLoad): Promise<ReadingTimes> {
  const { http, mxPort, to, keys, seconds, perSecond, message } = load;
  const times: ReadingTimes = { health: [], accepted: [], searches: [], refused: [], rate: 0 };
  const messages = seconds * perSecond;
  // Made beforehand: what is measured is the server.
  const made = Array.from({ length: messages }, (_, n) => message(n));
  const end = performance.now() + seconds * 1_000;

  async function ask(path: string, into: number[], headers: Record<string, string> = {}): Promise<void> {
    const started = performance.now();
    const answer = await fetch(http + path, { headers });
    await answer.arrayBuffer();
    into.push(performance.now() - started);
    if (answer.status !== 200) times.refused.push(answer.status);
  }
  async function read(key: string, place: number): Promise<void> {
    for (let n = place; performance.now() < end; n++) {
      const search = SEARCHES[n % SEARCHES.length]?.(n) ?? "";
      await ask(`/api/v1/search?${search}`, times.searches, { authorization: `Bearer ${key}` });
    }
  }
  /** Asks when the time has come, whether the last answer has or not. */
  async function probe(): Promise<void> {
    const asked: Promise<void>[] = [];
    const began = performance.now();
    for (let n = 0; performance.now() < end; n++) {
      asked.push(ask("/healthz", times.health));
      await Bun.sleep(Math.max(0, began + (n + 1) * PROBE_MS - performance.now()));
    }
    await Promise.all(asked);
  }

  const arriving = pump({
    ...{ port: mxPort, to, connections: CONNECTIONS, messages, perSecond },
    message: (n) => made[n] as Buffer,
    took: (ms) => void times.accepted.push(ms),
  });
  await Promise.all([probe(), ...keys.map(read)]);
  return { ...times, rate: await arriving };
}
