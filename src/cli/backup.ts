/** `mailroom backup …` and `mailroom restore`. They do not open the appliance, which would migrate the data folder. */
import { version } from "../../package.json" with { type: "json" };
import { makeAgeIdentity, readAgeIdentities } from "../backup/age.ts";
import { ENVIRONMENT, readSavedEnvironment, type TakenOver } from "../backup/environment.ts";
import { makeBackup } from "../backup/make.ts";
import { readBackedUpFile, restoreBackup } from "../backup/restore.ts";
import { type Verified, verifyBackup } from "../backup/verify.ts";
import { UsageError } from "../base/errors.ts";
import { checkRestoredDatabase } from "../moving/trust.ts";
import { readStandby } from "../replica/follow-replica.ts";
import { type Document, defineCommand, FailedCheck } from "./command.ts";
import { formatRecord, formatTable } from "./output.ts";

const FOLDER = { folder: "DIR" } as const;
const IDENTITY = { identity: { value: "FILE", summary: "Private key that opens encrypted backups" } } as const;
const identitiesFrom = (path: string | undefined) => (path === undefined ? undefined : readAgeIdentities(path));
const generationOr = (otherwise: string) => ({
  generation: { value: "ID", summary: `Which of the backups in the folder; otherwise ${otherwise}` },
});

function readKeepOption(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new UsageError(`--keep is "${text}": give a number of backups, 1 or more`);
  return Number(text);
}

function describeVerified(document: Document): string {
  const { generations, problems, more, ...rest } = document as Verified;
  const lines = problems.map(({ file, problem }) => `${file}: ${problem}\n`).join("");
  const further = more > 0 ? `and ${more} more\n` : "";
  return `${formatTable(generations, ["id", "createdAt", "version", "blobs", "ok"])}\n${lines}${further}${formatRecord(rest)}`;
}

export const backupCommands = [
  defineCommand({
    name: "backup key",
    staysRoot: true,
    summary:
      "Make a private key for encrypted backups in FILE, and print the public one for the setting backup.recipients",
    arguments: { file: "FILE" },
    run: async (_context, { arguments: { file } }) => ({ recipient: await makeAgeIdentity(file), file }),
  }),
  defineCommand({
    name: "backup verify",
    summary: "Check every file of a backup folder",
    arguments: FOLDER,
    options: { ...generationOr("all"), ...IDENTITY },
    text: describeVerified,
    async run(_context, { arguments: { folder }, options: { generation, identity } }) {
      const verified = await verifyBackup(folder, { generation, identities: await identitiesFrom(identity) });
      if (verified.ok) return verified;
      const count = verified.problems.length + verified.more;
      throw new FailedCheck(
        `the backup is damaged: ${count} ${count === 1 ? "problem" : "problems"}; mailroom backup ${folder} --reread copies anew what the data folder still has`,
        verified,
      );
    },
  }),
  defineCommand({
    name: "backup environment",
    staysRoot: true,
    summary: "Print the environment of the server that a backup is of, as another machine can take it over",
    arguments: FOLDER,
    options: { ...generationOr("the newest"), ...IDENTITY },
    text(document) {
      const { environment, left } = document as TakenOver;
      const lines = Object.entries(environment).map(([name, value]) => `${name}=${value}\n`);
      return [...lines, ...left.map(({ name, value, why }) => `# ${name}=${value} was not taken over: ${why}\n`)].join(
        "",
      );
    },
    async run(_context, { arguments: { folder }, options: { generation, identity } }) {
      const identities = await identitiesFrom(identity);
      const { text, manifest } = await readBackedUpFile({ folder, generation, identities }, ENVIRONMENT);
      // Backups of earlier versions have the name alone.
      return readSavedEnvironment(text ?? JSON.stringify({ MAILROOM_HOSTNAME: manifest.hostname }));
    },
  }),
  defineCommand({
    name: "backup",
    staysRoot: true,
    summary: "Back up the data folder into DIR, beside the running server; only new files are copied",
    arguments: FOLDER,
    options: {
      keep: { value: "N", summary: "Keep the newest N backups in DIR and remove the others" },
      unencrypted: { summary: "Encrypt nothing, whatever backup.recipients says" },
      reread: { summary: "Check the files that DIR has already, and copy damaged ones anew" },
    },
    async run({ config, runtime }, { arguments: { folder }, options }) {
      const keep = readKeepOption(options.keep);
      const { data, hostname, blobs } = config;
      if (readStandby(data)) throw new Error("this is a standby: make backups on the server");
      const { reread, unencrypted } = options;
      const made = await makeBackup({ data, folder, keep, reread, unencrypted, blobs, hostname, version, runtime });
      if (made.lacking.length === 0) return made;
      throw new FailedCheck(
        `the backup was made, without ${made.lacking.length} files that are missing or damaged in the data folder`,
        made,
      );
    },
  }),
  defineCommand({
    name: "restore",
    staysRoot: true,
    summary: "Restore a backup into an empty data folder; mail that was waiting to be sent is held",
    arguments: FOLDER,
    options: {
      ...generationOr("the newest"),
      ...IDENTITY,
      trusted: { summary: "Check no rows, and keep settings that name programs: nobody else could change the backup" },
      "send-queue": { summary: "Send the mail that was waiting, though it may have been sent since the backup" },
    },
    async run({ config, runtime, io }, { arguments: { folder }, options }) {
      const { data } = config;
      const sendQueue = options["send-queue"];
      const { generation } = options;
      const identities = await identitiesFrom(options.identity);
      const restored = await restoreBackup({
        folder,
        generation,
        identities,
        data,
        sendQueue,
        becomeOwner: () => io.actAsFolderOwner(data),
        check: options.trusted ? undefined : (database) => checkRestoredDatabase(database, runtime.now()),
        runtime,
      });
      const { held, unscheduled, reset } = restored;
      for (const name of reset) {
        io.writeStderr(`mailroom: ${name} has its default again: it named a program that is none of this system\n`);
      }
      if (held + unscheduled > 0) {
        io.writeStderr(
          `mailroom: kept back, since it may have been sent after the backup: mail to ${held} recipients (see mailroom queue list, then queue release, or queue cancel ID) and ${unscheduled} drafts that were to be sent at a time\n`,
        );
      }
      return restored;
    },
  }),
];
