import { describe, expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { createScheduler, type Job, workOnEach } from "../../src/base/scheduler.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const MINUTE = 60_000;

function setUp(jobs: (ran: string[], now: () => number) => Job[]) {
  const runtime = fakeRuntime();
  const ran: string[] = [];
  const lines: string[] = [];
  const log = createLog("info", runtime.now, (line) => lines.push(line));
  const scheduler = createScheduler(runtime, log);
  scheduler.add(jobs(ran, () => (runtime.now() - START) / MINUTE));
  const advance = async (minutes: number): Promise<void> => {
    runtime.advanceTo(runtime.now() + minutes * MINUTE);
    await scheduler.settled();
  };
  return { runtime, ran, lines, scheduler, advance };
}

/** A job that records its runs and returns the given times. */
const noting = (ran: string[], name: string, note: () => string, next: Job["runDue"]): Job => ({
  name,
  runDue(now) {
    ran.push(note());
    return next(now);
  },
});

/** A job that runs until it is released. */
function held(ran: string[], name: string, next: number | null) {
  const gate = { release: (): void => {} };
  const job = noting(
    ran,
    name,
    () => name,
    () =>
      new Promise((resolve) => {
        gate.release = () => resolve(next);
      }),
  );
  return { job, release: () => gate.release() };
}

describe("the scheduler", () => {
  test("runs every job at the start, then when each asked to run", async () => {
    const { ran, scheduler, advance } = setUp((ran, minute) => [
      noting(
        ran,
        "often",
        () => `often ${minute()}`,
        (now) => now + 2 * MINUTE,
      ),
      noting(
        ran,
        "never",
        () => "never",
        () => null,
      ),
    ]);
    scheduler.start();
    await scheduler.settled();
    expect(ran).toEqual(["often 0", "never"]);
    await advance(2);
    await advance(1);
    await advance(1);
    expect(ran).toEqual(["often 0", "never", "often 2", "often 4"]);
  });

  test("runs a job again when it is woken, also while it runs", async () => {
    let release = (): void => {};
    const { ran, scheduler } = setUp((ran) => {
      const slow = held(ran, "slow", null);
      release = slow.release;
      return [
        slow.job,
        noting(
          ran,
          "other",
          () => "other",
          () => null,
        ),
      ];
    });
    scheduler.start();
    scheduler.wake("slow");
    expect(ran).toEqual(["slow", "other"]);
    release();
    await Bun.sleep(0);
    expect(ran).toEqual(["slow", "other", "slow"]);
    release();
    await scheduler.settled();
    scheduler.wake("other");
    await scheduler.settled();
    expect(ran).toEqual(["slow", "other", "slow", "other"]);
  });

  test("runs a job again when it is woken in the moment in which it ends", async () => {
    const { ran, scheduler } = setUp((ran) => [
      {
        name: "one",
        runDue() {
          ran.push("one");
          // More microtasks than the end of a run takes.
          let turn = Promise.resolve();
          for (let turns = 1; turns <= 12; turns++) {
            turn = turn.then(() => {
              if (ran.length === turns) scheduler.wake("one");
            });
          }
          return null;
        },
      },
    ]);
    scheduler.start();
    for (let i = 0; i < 20; i++) await new Promise(setImmediate);
    await scheduler.settled();
    expect(ran.length).toBeGreaterThanOrEqual(12);
    await scheduler.stop();
  });

  test("a job that throws is logged and retried after growing waits, and stops no other", async () => {
    const { ran, lines, scheduler, runtime } = setUp((ran, minute) => [
      {
        name: "broken",
        runDue: () => {
          ran.push(`broken ${Math.round(minute() * 60)}s`);
          throw new Error("no luck");
        },
      },
      { name: "sound", runDue: (now) => now + 1_000 },
    ]);
    scheduler.start();
    await scheduler.settled();
    for (let second = 1; second <= 7; second++) {
      runtime.advanceTo(START + second * 1_000);
      await scheduler.settled();
    }
    expect(ran).toEqual(["broken 0s", "broken 1s", "broken 3s", "broken 7s"]);
    expect(lines.map((line) => JSON.parse(line).message)).toEqual(Array(4).fill("job failed"));
  });

  test("stop waits for running jobs, and no job runs afterwards", async () => {
    let release = (): void => {};
    const { ran, scheduler, advance } = setUp((ran) => {
      const slow = held(ran, "slow", START + 1);
      release = slow.release;
      return [slow.job];
    });
    scheduler.start();
    const stopped = scheduler.stop();
    release();
    await stopped;
    await advance(5);
    expect(ran).toEqual(["slow"]);
  });

  test("runs every job anew when the clock was set back, and tells it that the clock was ahead", async () => {
    const { runtime, ran, lines, scheduler, advance } = setUp((ran, minute) => [
      {
        name: "hourly",
        runDue(now, wasAhead) {
          ran.push(`hourly ${Math.floor(minute())} ${wasAhead}`);
          return now + 60 * MINUTE;
        },
      },
      { name: "often", runDue: (now) => now + 1_000 },
    ]);
    scheduler.start();
    await scheduler.settled();
    scheduler.wake("hourly");
    await scheduler.settled();
    runtime.setBy(24 * 60 * MINUTE);
    await advance(1);
    runtime.setBy(-24 * 60 * MINUTE);
    await advance(1);
    expect(ran).toEqual(["hourly 0 true", "hourly 0 false", "hourly 1440 false", "hourly 1 true"]);
    expect(lines.map((line) => JSON.parse(line).message)).toContain(
      "the clock was set back: looking at everything anew",
    );
    await advance(60);
    expect(ran.slice(4)).toEqual(["hourly 61 false"]);
  });

  test("tells a job that failed then again", async () => {
    const { ran, scheduler, advance } = setUp((ran) => [
      {
        name: "broken once",
        runDue(_, wasAhead) {
          ran.push(String(wasAhead));
          if (ran.length === 1) throw new Error("no luck");
          return null;
        },
      },
    ]);
    scheduler.start();
    await scheduler.settled();
    await advance(1);
    expect(ran).toEqual(["true", "true"]);
  });

  test("holds jobs that delete for an hour after the clock leapt ahead; others go on", async () => {
    const { runtime, ran, scheduler, advance } = setUp((ran, minute) => [
      {
        ...noting(
          ran,
          "deletes",
          () => `deletes ${minute()}`,
          (now) => now + 10 * MINUTE,
        ),
        deletes: true,
      },
      noting(
        ran,
        "works",
        () => `works ${minute()}`,
        (now) => now + 30 * MINUTE,
      ),
    ]);
    scheduler.start();
    await scheduler.settled();
    await advance(10);
    expect(ran).toEqual(["deletes 0", "works 0", "deletes 10"]);
    runtime.setBy(1_000 * MINUTE);
    await advance(10);
    expect(ran.slice(3)).toEqual(["works 1020"]);
    await advance(30);
    await advance(29);
    expect(ran.slice(4)).toEqual(["works 1050"]);
    await advance(1);
    expect(ran.slice(5)).toEqual(["deletes 1080", "works 1080"]);
  });

  test("holds jobs that delete for an hour after a start with a clock that may be wrong", async () => {
    const { ran, scheduler, advance } = setUp((ran, minute) => [
      {
        ...noting(
          ran,
          "deletes",
          () => `deletes ${minute()}`,
          () => null,
        ),
        deletes: true,
      },
    ]);
    scheduler.start(true);
    await scheduler.settled();
    await advance(59);
    expect(ran).toEqual([]);
    await advance(1);
    expect(ran).toEqual(["deletes 60"]);
  });
});

test("work on each of several is done for all, and the first failure is thrown in the end", async () => {
  const done: number[] = [];
  const work = async (item: number) => {
    if (item % 2 === 0) throw new Error(`${item} failed`);
    done.push(item);
  };
  await expect(workOnEach([1, 2, 3, 4, 5], work)).rejects.toThrow("2 failed");
  expect(done).toEqual([1, 3, 5]);
  await workOnEach([7], work);
  expect(done).toEqual([1, 3, 5, 7]);
});
