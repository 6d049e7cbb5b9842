/** The lease over a real S3 server: probe, take, renew, lose, release, and how others see it. */
import { expect, test } from "bun:test";
import { openS3 } from "../../src/net/s3.ts";
import {
  createLeaseObserver,
  type HeldLease,
  HOLD_MS,
  type Lease,
  LeaseTaken,
  type Loss,
  probeConditionalWrites,
  readReplicaLease,
  TERM_MS,
  takeReplicaLease,
} from "../../src/replica/lease.ts";
import type { Identity, KnownIdentity } from "../../src/replica/replica-identity.ts";
import { describeS3, ignoring, type S3, startS3 } from "../harness/peers/s3.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const SECOND = 1_000;

/** A data folder that may take the lease: its clock, and what it keeps. */
function machine(
  s3: S3,
  { url = "https://one.example", identity, saw }: { url?: string; identity?: KnownIdentity; saw?: Lease } = {},
) {
  const runtime = fakeRuntime({ fetch });
  let underWay = 0;
  const opened = openS3(s3.location, runtime);
  const counted =
    <A extends unknown[], T>(ask: (...args: A) => Promise<T>) =>
    (...args: A) => {
      underWay++;
      return ask(...args).finally(() => underWay--);
    };
  const { get, put, remove, folders } = opened;
  const objects = { get: counted(get), put: counted(put), remove: counted(remove), folders: counted(folders) };
  const losses: Loss[] = [];
  const self = {
    runtime,
    objects,
    losses,
    identity,
    async take(): Promise<HeldLease> {
      const parts = {
        objects,
        runtime,
        place: "there",
        url,
        keep(kept: Identity) {
          self.identity = { ...kept, isHere: true };
        },
      };
      const observer = createLeaseObserver(runtime);
      if (saw) observer.look(saw, runtime.elapsed());
      const lease = await takeReplicaLease({ ...parts, ...(saw && { observer }) }, self.identity);
      lease.onLoss((loss) => losses.push(loss));
      return lease;
    },
    /** Lets time pass, a second at a time, each until all that is due has been done. */
    async pass(ms: number, done: () => boolean = () => true) {
      for (let passed = 0; passed < ms; passed += SECOND) {
        runtime.advanceTo(runtime.now() + SECOND);
        await new Promise((resolve) => setImmediate(resolve));
        await until(() => underWay === 0);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await until(done);
    },
  };
  return self;
}

/** Identity in a copy of the data folder on another machine. */
const copied = (identity: KnownIdentity | undefined): KnownIdentity => ({
  ...(identity as KnownIdentity),
  isHere: false,
});

const held = async (s3: S3): Promise<Lease | undefined> =>
  readReplicaLease(openS3(s3.location, fakeRuntime({ fetch })));

describeS3("the lease", (program) => {
  test("the probe accepts a server that honours both conditions, and leaves nothing behind", async () => {
    const s3 = await startS3(program);
    const { objects, runtime } = machine(s3);
    await probeConditionalWrites(objects, runtime);
    expect((await s3.direct.list()).contents ?? []).toEqual([]);
  });

  test.each([
    ["if-none-match", "If-None-Match"],
    ["if-match", "If-Match"],
  ])("the probe refuses a server that ignores %s", async (header, named) => {
    const s3 = await startS3(program);
    const { objects, runtime } = machine(s3);
    s3.interfere(ignoring(s3, header));
    await expect(probeConditionalWrites(objects, runtime)).rejects.toThrow(`does not honour ${named}`);
    expect((await s3.direct.list()).contents ?? []).toEqual([]);
  });

  test("the first holder takes epoch 1, renews it, and goes on with it after a crash", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    const first = await held(s3);
    expect(first).toMatchObject({
      epoch: 1,
      released: false,
      url: "https://one.example",
      holder: one.identity?.holder,
    });
    await one.pass(4 * SECOND);
    const renewed = await held(s3);
    expect(renewed?.nonce).not.toBe(first?.nonce as string);
    expect(one.identity?.nonces).toEqual([first?.nonce as string, renewed?.nonce as string]);
    expect(lease.isCertain()).toBeTrue();
    await lease.see();

    // As after kill -9: the identity is what the file says.
    await lease.stop();
    const again = machine(s3, { identity: one.identity as KnownIdentity });
    expect((await again.take()).epoch).toBe(1);
    expect(again.runtime.elapsed()).toBe(0);
  });

  test("an epoch that has files without a lease is not used again", async () => {
    const s3 = await startS3(program);
    await s3.direct.write("team/epochs/7/0000/x", "x");
    expect((await machine(s3).take()).epoch).toBe(8);
  });

  test("another takes it when it is released, in the next epoch; the first is refused from then on", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    await (await one.take()).release();
    expect(await held(s3)).toMatchObject({ epoch: 1, released: true });
    const two = machine(s3, { url: "https://two.example" });
    const second = await two.take();
    expect(second.epoch).toBe(2);
    await second.release();
    const refused = one.take();
    await expect(refused).rejects.toBeInstanceOf(LeaseTaken);
    await expect(refused).rejects.toThrow("the server https://two.example writes to the replica, in epoch 2");
  });

  test("who released it takes it again in the same epoch", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    await (await one.take()).release();
    expect((await one.take()).epoch).toBe(1);
    expect(await held(s3)).toMatchObject({ epoch: 1, released: false });
  });

  test("another is refused while the holder renews, and takes over when it was unchanged for a term", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    const two = machine(s3, { url: "https://two.example" });
    const refused = two.take();
    refused.catch(() => {});
    await two.pass(2 * SECOND);
    await one.pass(4 * SECOND);
    await two.pass(2 * SECOND);
    await expect(refused).rejects.toThrow("https://one.example writes to the replica");

    await lease.stop();
    const taking = two.take();
    await two.pass(TERM_MS - SECOND);
    expect((await held(s3))?.epoch).toBe(1);
    await two.pass(3 * SECOND);
    expect((await taking).epoch).toBe(2);
    await expect(lease.see()).rejects.toThrow("has lost the lease");
    expect(one.losses).toMatchObject([{ reason: "taken", by: { url: "https://two.example", epoch: 2 } }]);
    expect(lease.isCertain()).toBeFalse();
  });

  test("a renewal before the first look is no sign that the holder still renews", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    const saw = (await held(s3)) as Lease;
    await one.pass(4 * SECOND);
    await lease.stop();
    const two = machine(s3, { url: "https://two.example", saw });
    const taking = two.take();
    taking.catch(() => {});
    await two.pass(TERM_MS + 2 * SECOND);
    expect((await taking).epoch).toBe(2);
  });

  test("a holder that is overtaken notices at its next renewal", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    await s3.direct.write(
      "team/lease",
      JSON.stringify({ epoch: 2, holder: "b", nonce: "n", url: "https://two.example", renewedAt: "" }),
    );
    await one.pass(4 * SECOND, () => one.losses.length > 0);
    expect(one.losses).toMatchObject([{ reason: "taken", by: { url: "https://two.example" } }]);
    await lease.release();
    expect((await held(s3))?.holder).toBe("b");
  });

  test("a holder whose lease is removed has lost it", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    await one.take();
    await s3.direct.delete("team/lease");
    await one.pass(4 * SECOND, () => one.losses.length > 0);
    expect(one.losses).toEqual([{ reason: "taken", by: undefined }]);
  });

  test("a holder that cannot renew loses sight well before the term ends, and finds it again", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    s3.interfere(() => new Response("<Code>SlowDown</Code>", { status: 503 }));
    await one.pass(HOLD_MS - SECOND);
    expect(lease.isCertain()).toBeTrue();
    expect(one.losses).toEqual([]);
    await one.pass(SECOND);
    expect(lease.isCertain()).toBeFalse();
    expect(one.losses).toMatchObject([{ reason: "sight", error: expect.stringContaining("503 SlowDown") }]);
    await one.pass(2 * TERM_MS);
    expect(one.losses).toHaveLength(1);
    s3.interfere(undefined);
    await one.pass(3 * SECOND);
    expect(lease.isCertain()).toBeTrue();
    expect(lease.state().error).toBeUndefined();
  });

  test("a renewal that happened although its answer was lost is known as its own", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    let lost = 0;
    s3.interfere(async (request, forward) => {
      if (request.method === "PUT" && lost++ < 2) {
        await forward();
        return new Response("", { status: 500 });
      }
      return forward();
    });
    await one.pass(10 * SECOND);
    expect(lost).toBeGreaterThan(2);
    expect(one.losses).toEqual([]);
    await lease.see();
    expect(lease.state()).toMatchObject({ error: undefined });
    expect(lease.state().age).toBeLessThan(4 * SECOND);
  });

  test("setting the clock ahead or back changes nothing", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    one.runtime.setBy(10 * 60 * SECOND);
    expect(lease.isCertain()).toBeTrue();
    one.runtime.setBy(-3 * 60 * 60 * SECOND);
    await one.pass(4 * SECOND);
    expect(lease.isCertain()).toBeTrue();
    expect(lease.state().age).toBeLessThan(4 * SECOND);
    expect(one.losses).toEqual([]);
  });

  test("of two machines with copies of one data folder, one stops", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    await one.take();
    // The copy was made before the last renewal: it waits, and sees that the lease lives.
    const old = copied(one.identity);
    await one.pass(4 * SECOND);
    const copy = machine(s3, { identity: old });
    const refused = copy.take();
    refused.catch(() => {});
    await copy.pass(SECOND);
    await one.pass(4 * SECOND);
    await copy.pass(2 * SECOND);
    await expect(refused).rejects.toThrow("from a copy of this data folder");

    // The same of a copy of this very moment.
    const same = machine(s3, { identity: copied(one.identity) });
    const taking = same.take();
    taking.catch(() => {});
    await same.pass(SECOND);
    await one.pass(4 * SECOND);
    await same.pass(2 * SECOND);
    await expect(taking).rejects.toThrow("from a copy of this data folder");
    expect(one.losses).toEqual([]);
  });

  test("a folder that was moved, or whose machine was started anew, goes on in its epoch after a few seconds", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    await (await one.take()).stop();
    const moved = machine(s3, { identity: copied(one.identity) });
    const taking = moved.take();
    await moved.pass(4 * SECOND);
    expect((await held(s3))?.nonce).toBe(one.identity?.nonces.at(-1) as string);
    await moved.pass(3 * SECOND);
    expect((await taking).epoch).toBe(1);
    expect((await held(s3))?.nonce).toBe(moved.identity?.nonces.at(-1) as string);
  });

  test("a copy that is older than the lease is refused also when its original has ended", async () => {
    const s3 = await startS3(program);
    const one = machine(s3);
    const lease = await one.take();
    const old = one.identity as KnownIdentity;
    await one.pass(8 * SECOND);
    await lease.release();
    const before = await held(s3);
    for (const identity of [old, copied(old)]) {
      await expect(machine(s3, { identity }).take()).rejects.toThrow("what this one has is older");
    }
    expect(await held(s3)).toEqual(before as Lease);
  });

  test("what is no lease is no lease", async () => {
    const s3 = await startS3(program);
    const right = { epoch: 1, holder: "a", nonce: "b", released: true, url: "https://one.example", renewedAt: "2026" };
    const wrong = [
      ...[{ epoch: "1" }, { epoch: -1 }, { epoch: 1.5 }, { epoch: Number.MAX_SAFE_INTEGER }],
      ...[{ holder: 1 }, { nonce: "b".repeat(101) }, { renewedAt: undefined }],
      ...["", "javascript:alert(1)", "https://one.example/\u001b[2J", `https://one.example/${"x".repeat(2_048)}`].map(
        (url) => ({ url }),
      ),
    ].map((change) => JSON.stringify({ ...right, ...change }));
    for (const text of ["", "null", "[]", "{", ...wrong]) {
      await s3.direct.write("team/lease", text);
      await expect(machine(s3).take()).rejects.toThrow("is no lease");
    }
    await s3.direct.write("team/lease", JSON.stringify(right));
    expect((await machine(s3).take()).epoch).toBe(2);
  });

  test("an epoch after which none could come is not gone on with", async () => {
    const s3 = await startS3(program);
    await s3.direct.write(`team/epochs/${Number.MAX_SAFE_INTEGER}/x`, "x");
    expect((await machine(s3).take()).epoch).toBe(1);
  });
});

test("an observer counts from when it received the lease to when it asked again", () => {
  const runtime = fakeRuntime();
  const observer = createLeaseObserver(runtime);
  const lease = { nonce: "a" } as Lease;
  const at = (ms: number) => runtime.advanceTo(runtime.now() - runtime.elapsed() + ms);
  at(2_000);
  expect(observer.look(lease, 0)).toBe("first");
  at(TERM_MS + 2_500);
  expect(observer.look(lease, TERM_MS + 1_999)).toBe("same");
  expect(observer.look(lease, TERM_MS + 2_000)).toBe("over");
  expect(observer.look({ ...lease, nonce: "b" }, TERM_MS + 2_500)).toBe("changed");
  expect(observer.look({ ...lease, nonce: "b" }, TERM_MS + 2_600)).toBe("same");
});
