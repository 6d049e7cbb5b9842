/** A data folder on disk with a workspace and files in it, and a backup folder beside it. */
import { Database } from "bun:sqlite";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId, type Runtime, randomToken } from "../../../src/base/runtime.ts";
import { addOutbound } from "../../../src/outbound/queue.ts";
import { workspaces } from "../../../src/store/schema.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { temporaryFolder } from "../folder.ts";
import { fakeRuntime } from "../runtime.ts";
import { openSetUp, openTerminal, type Terminal } from "../servers/terminal.ts";

export interface BackupRig extends Terminal {
  /** Opens the same data folder with parts of the runtime replaced. */
  openWith(runtime: Partial<Runtime>): Terminal;
  /** The backup folder, which does not exist yet. */
  folder: string;
  /** Stores a file that a message in the queue for dan@remote.example uses. Returns its name. */
  add(content: string, to?: string): Promise<string>;
  /** Works with the data folder's store. */
  within<T>(work: (store: Store) => T | Promise<T>): Promise<T>;
  /** Removes every message in the queue, so that no row names its file. */
  forgetMail(): Promise<void>;
}

export async function openBackupRig(): Promise<BackupRig> {
  const terminal = await openSetUp();
  const runtime = fakeRuntime();
  async function within<T>(work: (store: Store) => T | Promise<T>): Promise<T> {
    const store = openStore({ folder: terminal.data, runtime });
    try {
      return await work(store);
    } finally {
      store.close();
    }
  }
  return {
    ...terminal,
    openWith: (replaced) => openTerminal({ data: terminal.data, runtime: replaced }),
    folder: join(temporaryFolder(), "backup"),
    within,
    add: (content, to = "dan@remote.example") =>
      within(async (store) => {
        const blob = await store.blobs.write(Buffer.from(content));
        const workspaceId = store.db.select().from(workspaces).get()?.id ?? "";
        store.transact((tx) => {
          addOutbound(tx, {
            id: newId(runtime, "msg"),
            workspaceId,
            mailboxId: "",
            mailbox: "ada@acme.test",
            threadId: "",
            messageId: `<${randomToken(runtime, 8)}@acme.test>`,
            subject: "A large file",
            domain: "acme.test",
            returnPath: `bounce+${randomToken(runtime, 8).toLowerCase()}@acme.test`,
            acceptedAt: runtime.now(),
            outsideRecipients: 1,
            recipients: [{ id: newId(runtime, "que"), email: to, field: "to" }],
            content: { blob, size: content.length },
          });
        });
        return blob;
      }),
    forgetMail: () => within((store) => void store.db.$client.run("DELETE FROM outbound_messages")),
  };
}

/** Reads all files below a folder, by path, except locks. */
export function filesOf(folder: string): Map<string, Buffer> {
  const log = writeBackLog(join(folder, "mailroom.db"));
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
  const files = paths.filter(
    (path) => !path.endsWith(".lock") && !log.includes(path) && statSync(join(folder, path)).isFile(),
  );
  return new Map(files.map((path) => [path, readFileSync(join(folder, path))]));
}

/** Writes checksums, as sha256sum does, of the present files of a backup. */
export function agree(generation: string): void {
  const files = [...filesOf(generation)].filter(([path]) => path !== "SHA256SUMS");
  const sums = files.map(([path, bytes]) => `${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}  ${path}\n`);
  writeFileSync(join(generation, "SHA256SUMS"), sums.join(""));
}

/**
 * Writes the log of a closed database back now. The log stays until the database's last statement is collected, at an unknown
 * time. Returns the names of the files that may go at any time from now on.
 */
function writeBackLog(file: string): string[] {
  if (!existsSync(`${file}-wal`)) return [];
  const sqlite = new Database(file);
  const { busy } = sqlite.query("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
  sqlite.close();
  if (busy !== 0) throw new Error(`${file} is in use`);
  return ["mailroom.db-wal", "mailroom.db-shm"];
}
