/**
 * Divides what all workspaces share (rules: Shares): places for requests that wait, streams and uploads, and bytes of bodies
 * and answers.
 *
 * Invariant: each holder leaves room for the next one. A workspace holds at most three times what it leaves free, and at most
 * three quarters of all, or half while another workspace holds something or waits. In that part, a person holds at most twice
 * what they leave of it. An amount larger than a part is let in only while the workspace holds nothing.
 */
import type { Runtime } from "./runtime.ts";

/** Holder of an amount. An unknown caller is a person of the workspace "". */
export interface Sharer {
  workspaceId: string;
  userId: string;
  /** Id of the key, or of the session. */
  keyId?: string | undefined;
}

/** Reason why there is no room: what the person or key holds already (`yours`), or what others hold (`all`). */
export type Lack = "yours" | "all";

export interface Held {
  /** Sets the amount, whether there is room for it or not. */
  change(amount: number): void;
  /** Gives it back; a second time does nothing. */
  release(): void;
}

export type Shares = ReturnType<typeof createShares>;

interface Waiter {
  who: Sharer;
  amount: number;
  admit(): void;
}

/** Adds to the amount under a name. */
function count(amounts: Map<string, number>, name: string, by: number): void {
  const now = (amounts.get(name) ?? 0) + by;
  if (now > 0) amounts.set(name, now);
  else amounts.delete(name);
}

const FREE = { workspace: 3, person: 2 };
const PART = { alone: 3 / 4, besideOthers: 1 / 2 };

/** `most`: the amount for all; `mostOfPerson`, `mostOfKey`: limits on top of the parts. */
export function createShares({
  most,
  mostOfPerson = most,
  mostOfKey = most,
  runtime,
}: {
  most: number;
  mostOfPerson?: number;
  mostOfKey?: number;
  runtime: Pick<Runtime, "setTimer">;
}) {
  const workspaces = new Map<string, number>();
  const persons = new Map<string, number>();
  const keys = new Map<string, number>();
  /** In the order in which they came. */
  const waiting = new Set<Waiter>();
  const waitingOf = new Map<string, number>();
  let all = 0;
  const refused = { yours: 0, all: 0 };

  function add({ workspaceId, userId, keyId = userId }: Sharer, amount: number): void {
    all += amount;
    count(workspaces, workspaceId, amount);
    count(persons, `${workspaceId} ${userId}`, amount);
    count(keys, keyId, amount);
  }

  function findShareLack({ workspaceId, userId, keyId = userId }: Sharer, amount: number): Lack | undefined {
    const ofWorkspace = workspaces.get(workspaceId) ?? 0;
    const ofPerson = persons.get(`${workspaceId} ${userId}`) ?? 0;
    const ofKey = keys.get(keyId) ?? 0;
    const isAlone = all === ofWorkspace && waiting.size === (waitingOf.get(workspaceId) ?? 0);
    const part = most * (isAlone ? PART.alone : PART.besideOthers);
    const free = most - all - amount;
    const freeOfPart = part - ofWorkspace - amount;
    if (ofKey > 0 && ofKey + amount > mostOfKey) return "yours";
    if (ofPerson > 0 && ofPerson + amount > Math.min(mostOfPerson, FREE.person * freeOfPart)) return "yours";
    if (all > 0 && free < 0) return "all";
    if (ofWorkspace > 0 && (freeOfPart < 0 || ofWorkspace + amount > FREE.workspace * free)) return "all";
    return undefined;
  }

  function hold(who: Sharer, amount: number): Held {
    let present = amount;
    add(who, amount);
    const change = (to: number): void => {
      add(who, to - present);
      present = to;
      admit();
    };
    return { change, release: () => change(0) };
  }

  /** Lets those in who wait, in their order; who lacks room does not hold up others. */
  function admit(): void {
    for (const waiter of waiting) {
      if (findShareLack(waiter.who, waiter.amount) !== undefined) continue;
      leave(waiter);
      waiter.admit();
    }
  }

  function leave(waiter: Waiter): void {
    if (waiting.delete(waiter)) count(waitingOf, waiter.who.workspaceId, -1);
  }

  function take(who: Sharer, amount: number): Held | Lack {
    const lack = findShareLack(who, amount);
    if (lack === undefined) return hold(who, amount);
    refused[lack]++;
    return lack;
  }

  return {
    most,
    /** Takes an amount if there is room for it now. */
    take,
    /** Takes an amount once there is room for it; undefined after `ms` without, or when `signal` aborts. */
    async wait(who: Sharer, amount: number, ms: number, signal: AbortSignal): Promise<Held | undefined> {
      if (findShareLack(who, amount) === undefined) return hold(who, amount);
      const { promise, resolve } = Promise.withResolvers<Held | undefined>();
      const waiter: Waiter = { who, amount, admit: () => resolve(hold(who, amount)) };
      const giveUp = (): void => {
        leave(waiter);
        resolve(undefined);
        // A workspace that no longer waits leaves more to the others.
        admit();
      };
      waiting.add(waiter);
      count(waitingOf, who.workspaceId, 1);
      const cancel = runtime.setTimer(giveUp, ms);
      signal.addEventListener("abort", giveUp);
      if (signal.aborted) giveUp();
      try {
        return await promise;
      } finally {
        cancel();
        signal.removeEventListener("abort", giveUp);
      }
    },
    held: (): number => all,
    waiting: (): number => waiting.size,
    /** How often there was no room, by what was lacking. */
    refused: (): Readonly<Record<Lack, number>> => refused,
  };
}
