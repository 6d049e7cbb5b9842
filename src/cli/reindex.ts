/**
 * `mailroom reindex`: rebuilds the search index while searches go on. If Meilisearch is the engine, the running server then
 * feeds it all messages again.
 */
import { pause } from "../base/pause.ts";
import { reindexPortion } from "../search/fts5/upkeep.ts";
import { statement } from "../store/statement.ts";
import { createPacing } from "../transfer/import-mail.ts";
import { defineCommand } from "./command.ts";
import { watchProgress } from "./output.ts";

/** Time between two looks at the server's progress, and without progress until the command ends, ms. */
const LOOK_MS = 500;
const STANDSTILL_MS = 60_000;

const countMessages = statement<{ n: number }>("SELECT count(*) AS n FROM messages");

export const reindex = defineCommand({
  name: "reindex",
  summary: "Rebuild the search index from the stored mail; safe to interrupt and to repeat",
  async run({ opened: { core }, runtime, io }) {
    const { store, engine } = core;
    const { prune, isDamaged, empty, complete, refill, pending } = engine;
    const total = countMessages(store.db).get()?.n ?? 0;
    const { isInterrupted, tell } = watchProgress({ io, runtime });
    const pacing = createPacing(core, isInterrupted);
    if (isDamaged()) {
      io.writeStderr("the index is damaged: it is emptied first, and search finds what is indexed again\n");
      store.transact(empty);
    }
    let indexed = 0;
    for (let after: number | undefined = 0; after !== undefined; ) {
      if (isInterrupted()) throw new Error(`interrupted after ${indexed} of ${total} messages; run it again`);
      const from: number = after;
      const room = pacing.room();
      const { messages, last } = await pacing.run(room, (begun) =>
        store.transact((tx) => {
          begun();
          return reindexPortion(tx, engine, from, room);
        }),
      );
      indexed += messages;
      after = last;
      tell(() => `${indexed} of ${total} messages`);
    }
    await pacing.run(1, (begun) =>
      store.transact((tx) => {
        begun();
        prune(tx);
        complete(tx);
        refill(tx);
      }),
    );
    if (pending() === undefined) return { messages: indexed };
    let left = pending() ?? 0;
    for (let since = runtime.now(); left > 0 && pacing.isServed(); ) {
      if (isInterrupted() || runtime.now() - since >= STANDSTILL_MS) break;
      await pause(runtime, LOOK_MS);
      const now = pending() ?? 0;
      if (now !== left) since = runtime.now();
      left = now;
      tell(() => `Meilisearch: ${Math.max(0, total - left)} of ${total} messages`);
    }
    const messages = left === 1 ? "message" : "messages";
    if (left > 0) io.writeStderr(`Meilisearch is told of ${left} ${messages} by the server, when it runs\n`);
    return { messages: indexed, untold: left };
  },
});
