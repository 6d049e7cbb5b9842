/**
 * Limits how much people may have under way at once, each and all together: bytes of request bodies, uploads. A request
 * beyond a limit is refused rather than queued, so that waiting requests take no memory.
 */
import { AppError, unavailable } from "../base/errors.ts";

/** Counts so much more as under way. @throws AppError rate_limited, server_error 503 */
export type Count = (amount: number) => void;

export interface Budget {
  /** Does `work`; what it counts stays counted until it has ended. */
  within<T>(personId: string, work: (count: Count) => Promise<T>): Promise<T>;
}

/** `what`: for the refusals. */
export function createBudget({ most, mostOfOne, what }: { most: number; mostOfOne: number; what: string }): Budget {
  const byPerson = new Map<string, number>();
  let all = 0;

  function add(personId: string, amount: number): void {
    all += amount;
    const theirs = (byPerson.get(personId) ?? 0) + amount;
    if (theirs > 0) byPerson.set(personId, theirs);
    else byPerson.delete(personId);
  }

  return {
    async within(personId, work) {
      let counted = 0;
      try {
        return await work((amount) => {
          if ((byPerson.get(personId) ?? 0) + amount > mostOfOne) {
            const message = `Too many ${what} of yours are under way: try again when they have ended`;
            throw new AppError("rate_limited", message, { retryAfter: 5 });
          }
          if (all + amount > most) throw unavailable(`Too many ${what} are under way: try again in a moment`);
          counted += amount;
          add(personId, amount);
        });
      } finally {
        add(personId, -counted);
      }
    },
  };
}

const MB = 1_048_576;

/**
 * Of the bytes of JSON bodies. A body takes about five times as much while it is read, checked and composed: a machine of
 * 1 GB has room for all of them.
 */
export const createBodyBudget = (): Budget =>
  createBudget({ most: 64 * MB, mostOfOne: 24 * MB, what: "large requests" });

/** Of uploads, which go to the disk. */
export const createUploadBudget = (): Budget => createBudget({ most: 16, mostOfOne: 4, what: "uploads" });
