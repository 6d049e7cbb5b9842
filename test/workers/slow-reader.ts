/** A reader that keeps its state of the database for a while before it answers that it found nothing. */
import { encodeChildMessage, hearParent, tellParent } from "../../src/base/child-messages.ts";
import { openReaderDatabase } from "../../src/store/reader-database.ts";
import type { ToReader } from "../../src/workers/reader-messages.ts";
import { readerDatabaseFile } from "../../src/workers/reader-process.ts";

const SLOW_MS = 30;
const { db, atOnce } = openReaderDatabase(readerDatabaseFile() ?? "");

hearParent(async (message) => {
  const { id } = message as ToReader;
  await atOnce(async () => {
    db.$client.query("SELECT count(*) FROM messages").get();
    await Bun.sleep(SLOW_MS);
  });
  tellParent(encodeChildMessage({ id, answer: { threads: [], nextCursor: null, unread: 0 } }));
});
tellParent(encodeChildMessage({ ready: true }));
