/**
 * Sources from which somebody signed in lately. Listeners, and the queue in which passwords are checked, keep a part of
 * their room for these, so that strangers cannot take all of it. The only writer of sign_in_sources.
 *
 * Invariant: the table is bounded; of too many, the sources are forgotten from which nobody signed in for longest.
 */
import { asc, count, eq, inArray, lte, sql } from "drizzle-orm";
import type { Job } from "../base/scheduler.ts";
import type { Core, Reader } from "../store/core.ts";
import { signInSources } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";

const DAY_MS = 24 * 60 * 60_000;
const REMEMBERED_MS = 30 * DAY_MS;
/** About 3 MB. */
const MOST_ROWS = 50_000;
const SWEEP_MS = 60 * 60_000;

const statements = prepared((db) => ({
  find: db
    .select({ signedInAt: signInSources.signedInAt })
    .from(signInSources)
    .where(eq(signInSources.source, sql.placeholder("source")))
    .prepare(),
  count: db.select({ rows: count() }).from(signInSources).prepare(),
}));

/** For how long nobody has signed in from there, ms. @throws errors of the store */
function silence({ db, now }: Reader, source: string): number {
  const row = statements(db).find.get({ source });
  // The absolute difference, since the clock may have been set back.
  return row ? Math.abs(now() - row.signedInAt) : Number.POSITIVE_INFINITY;
}

/** Tells whether somebody signed in from there in the last 30 days. While the store cannot be read, nobody did. */
export function isKnownSignInSource(core: Reader, source: string): boolean {
  try {
    return silence(core, source) < REMEMBERED_MS;
  } catch {
    return false;
  }
}

/** Notes that somebody has signed in from there. A failed write is logged. */
export function noteSignInSource(core: Core, source: string): void {
  // Renewed once a day, not at every sign-in.
  if (silence(core, source) < DAY_MS) return;
  const signedInAt = core.now();
  core.store
    .note((tx) => {
      tx.insert(signInSources)
        .values({ source, signedInAt })
        .onConflictDoUpdate({ target: signInSources.source, set: { signedInAt } })
        .run();
    })
    .catch((error) => core.log.warn("the source of a sign-in was not recorded", { error }));
}

/** Tests set `mostRows`. */
export const forgetOldSignInSources = ({ store }: Core, mostRows = MOST_ROWS): Job => ({
  name: "sign-in-sources",
  deletes: true,
  async runDue(now) {
    await store.enqueue((tx) => {
      const { source, signedInAt } = signInSources;
      tx.delete(signInSources)
        .where(lte(signedInAt, now - REMEMBERED_MS))
        .run();
      const surplus = (statements(tx).count.get()?.rows ?? 0) - mostRows;
      if (surplus <= 0) return;
      const oldest = tx.select({ source }).from(signInSources).orderBy(asc(signedInAt)).limit(surplus);
      tx.delete(signInSources).where(inArray(source, oldest)).run();
    });
    return now + SWEEP_MS;
  },
});
