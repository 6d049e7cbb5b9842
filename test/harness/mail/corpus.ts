/**
 * Messages and cases of other projects, in folders beside this one. A clone by itself does not have them: tests that need
 * them are skipped, and say so.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../shared/corpus/", import.meta.url));

export const corpusPresent = existsSync(ROOT);

/** The reason why corpus tests are skipped, for their titles. */
export const corpusNote = corpusPresent ? "" : " (skipped: no corpus folder beside the project)";

export interface CorpusFile {
  /** Path inside the corpus; of a message in an mbox, with its number. */
  name: string;
  bytes: Uint8Array;
}

/** Folders of messages, and the pattern of their message files. */
const MESSAGES: [folder: string, isMessage: RegExp][] = [
  ["stalwart-mail-parser", /\.eml$/],
  ["mikel-mail", /\.eml$/],
  ["mime4j-testmsgs", /\.msg$/],
  ["cpython-test-email", /\/msg_\w+\.txt$/],
  ["spamassassin", /\/t\/data\//],
  ["sisimai", /\.eml$/],
  ["sisimai-extra", /\.eml$|\/mailbox\//],
];

/** The folders of messages. */
export const CORPORA = MESSAGES.map(([folder]) => folder);

/** Reads every message of the corpus, or of some of its folders; none when the corpus is absent. */
export function corpusFiles(...folders: string[]): CorpusFile[] {
  if (!corpusPresent) return [];
  return MESSAGES.filter(([folder]) => folders.length === 0 || folders.includes(folder)).flatMap(
    ([folder, isMessage]) =>
      namesIn(folder)
        .filter((name) => isMessage.test(name))
        .flatMap((name) => messagesIn(name)),
  );
}

/** Reads a file of the corpus; undefined when there is none of that name. */
export function corpusBytes(name: string): Uint8Array | undefined {
  return existsSync(ROOT + name) ? new Uint8Array(readFileSync(ROOT + name)) : undefined;
}

/** Reads the JSON of a corpus file. */
export function corpusJson(name: string): unknown {
  return JSON.parse(readFileSync(ROOT + name, "utf8"));
}

/** Lists the paths of the files of a corpus folder, in order. */
export function namesIn(folder: string): string[] {
  return readdirSync(ROOT + folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(ROOT.length))
    .sort();
}

function messagesIn(name: string): CorpusFile[] {
  const bytes = readFileSync(ROOT + name);
  if (!name.includes("/mailbox/")) return [{ name, bytes: new Uint8Array(bytes) }];
  // mbox: a message begins after a line that starts with "From ".
  return bytes
    .toString("latin1")
    .split(/^From .*\r?\n/m)
    .filter((message) => message.trim() !== "")
    .map((message, index) => ({ name: `${name}#${index + 1}`, bytes: new Uint8Array(Buffer.from(message, "latin1")) }));
}
