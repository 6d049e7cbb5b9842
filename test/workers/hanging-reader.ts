/** A reader that begins to read, and never answers. */
import { encodeChildMessage, hearParent, tellParent } from "../../src/base/child-messages.ts";
import { openReaderDatabase } from "../../src/store/reader-database.ts";
import { readerDatabaseFile } from "../../src/workers/reader-process.ts";

const { db, atOnce } = openReaderDatabase(readerDatabaseFile() ?? "");

hearParent(() => {
  void atOnce(() => {
    db.$client.query("SELECT count(*) FROM messages").get();
    for (;;);
  });
});
tellParent(encodeChildMessage({ ready: true }));
