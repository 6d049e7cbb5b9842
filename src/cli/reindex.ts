/** `mailroom reindex`: the search index made anew, while it is searched. */
import { createPacing } from "../transfer/batches.ts";
import { command } from "./command.ts";
import { watchProgress } from "./progress.ts";

export const reindex = command({
  name: "reindex",
  summary: "Build the search index anew from the mail that is stored; safe to interrupt and to repeat",
  options: {},
  async run({ appliance: { store, mailbox }, config, runtime, io }) {
    const { portion, prune, isDamaged, empty } = mailbox.reindexing;
    const pacing = createPacing({ folder: config.data, runtime });
    const total = store.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM messages").get()?.n ?? 0;
    const { isInterrupted, tell } = watchProgress({ io, runtime });
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
          return portion(tx, from, room);
        }),
      );
      indexed += messages;
      after = last;
      tell(() => `${indexed} of ${total} messages`);
    }
    store.transact(prune);
    return { messages: indexed };
  },
});
