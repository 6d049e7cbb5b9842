/**
 * Reads stored HTML anew, newest first, beside the work of the server, when the rules for visible text have changed since it
 * was filed: the index and models know the words that a person sees now. HTML whose visible text has not changed stays as it is
 * stored.
 *
 * A row records the progress, so that the work resumes after any interruption. Mail filed meanwhile has the present rules. This
 * job is the only writer of seen_renewal.
 */
import type { Job } from "../../base/scheduler.ts";
import { SEEN_VERSION } from "../../message/visible.ts";
import { statement } from "../../store/statement.ts";
import type { MailCore } from "../state/mail-core.ts";
import { renewVisibleText } from "./stored-html.ts";

/** Messages that are looked at in a portion, and times its duration that the job pauses. */
const PORTION = 50;
const PAUSES = 3;

const statements = {
  read: statement<{ version: number; belowSeq: number }, []>(
    "SELECT version, below_seq AS belowSeq FROM seen_renewal WHERE id = 1",
  ),
  begin: statement<unknown, [version: number]>(
    `INSERT OR REPLACE INTO seen_renewal (id, version, below_seq)
     SELECT 1, ?, coalesce(max(message_seq) + 1, 0) FROM message_bodies`,
  ),
  next: statement<{ seq: number; isOld: number }, [version: number, belowSeq: number]>(
    `SELECT message_seq AS seq, html IS NOT NULL AND seen_version < ? AS isOld
     FROM message_bodies WHERE message_seq < ? ORDER BY message_seq DESC LIMIT ${PORTION}`,
  ),
  advance: statement<unknown, [belowSeq: number]>("UPDATE seen_renewal SET below_seq = ? WHERE id = 1"),
};

export function renewAllVisibleTexts(core: MailCore): Job {
  const { db, store, now: clock } = core;
  return {
    name: "seen-renewal",
    async runDue(now) {
      if (statements.read(db).get()?.version !== SEEN_VERSION) {
        await store.enqueue((tx) => void statements.begin(tx).run(SEEN_VERSION));
      }
      const { belowSeq = 0 } = statements.read(db).get() ?? {};
      if (belowSeq === 0) return null;
      const rows = statements.next(db).all(SEEN_VERSION, belowSeq);
      for (const { seq, isOld } of rows) if (isOld === 1) await renewVisibleText(core, seq);
      const left = rows.length < PORTION ? 0 : (rows.at(-1)?.seq ?? 0);
      await store.enqueue((tx) => void statements.advance(tx).run(left));
      return left === 0 ? null : clock() + PAUSES * Math.max(1, clock() - now);
    },
  };
}
