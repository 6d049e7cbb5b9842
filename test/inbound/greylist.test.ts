/** Greylisting: senders that wait, senders that do not, and the time that they are remembered. */
import { describe, expect, test } from "bun:test";
import { createGreylist, type Triplet } from "../../src/inbound/greylist.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { greylist as table } from "../../src/store/schema.ts";
import { connectSmtp, type Reply } from "../harness/clients/smtp-client.ts";
import { boot } from "../harness/servers/boot.ts";
import { testCore } from "../harness/servers/core.ts";

const brief = ({ code, status }: Reply): string => (status === "" ? String(code) : `${code} ${status}`);
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const WAIT = 5 * MINUTE;

const TRIPLET: Triplet = { network: "192.0.2.0/24", reversePath: "a@remote.example", recipient: "alice@example.test" };

function setUp(mostRows?: number) {
  const core = testCore();
  const { runtime, store } = core;
  const greylist = createGreylist(core, mostRows);
  return {
    runtime,
    greylist,
    store,
    rows: () => store.db.select().from(table).all(),
    after: (ms: number) => runtime.advanceTo(runtime.now() + ms),
    /** Tells whether the mail is accepted. */
    async comes(triplet: Partial<Triplet> = {}): Promise<boolean> {
      try {
        await greylist.admit({ ...TRIPLET, ...triplet }, WAIT);
        return true;
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal);
        expect(error).toMatchObject({ reason: "greylisted", responseCode: 450 });
        return false;
      }
    },
  };
}

describe("a sender", () => {
  test("is accepted once it has waited, and from then on", async () => {
    const { comes, after } = setUp();
    expect(await comes()).toBe(false);
    after(WAIT - 1);
    expect(await comes()).toBe(false);
    after(1);
    expect(await comes()).toBe(true);
    expect(await comes()).toBe(true);
  });

  test("is remembered for 36 days after its last mail, and for two days before its retry", async () => {
    const { comes, after } = setUp();
    await comes();
    after(2 * DAY);
    expect(await comes()).toBe(false);
    after(2 * DAY - 1);
    expect(await comes()).toBe(true);
    for (let month = 0; month < 3; month++) {
      after(34 * DAY);
      expect(await comes()).toBe(true);
    }
    after(36 * DAY);
    expect(await comes()).toBe(false);
  });

  const OTHERS: [what: string, other: Partial<Triplet>, isSame: boolean][] = [
    ["from another network", { network: "198.51.100.0/24" }, false],
    ["with another reverse-path", { reversePath: "b@remote.example" }, false],
    ["without a reverse-path", { reversePath: "" }, false],
    ["to another recipient", { recipient: "bob@example.test" }, false],
    ["spelled in capitals", { reversePath: "A@Remote.Example", recipient: "ALICE@example.test" }, true],
  ];
  test.each(OTHERS)("%s", async (_, other, isSame) => {
    const { comes, after } = setUp();
    await comes();
    after(WAIT);
    expect(await comes(other)).toBe(isSame);
  });

  test("that numbers its reverse-paths counts as one", async () => {
    const { comes, after } = setUp();
    await comes({ reversePath: "list-bounces+1041-alice=example.test@lists.example" });
    after(WAIT);
    expect(await comes({ reversePath: "list-bounces+1042-alice=example.test@lists.example" })).toBe(true);
  });

  test("waits from now when the clock was set back", async () => {
    const { runtime, comes, after } = setUp();
    await comes();
    runtime.advanceTo(runtime.now() - DAY);
    expect(await comes()).toBe(false);
    after(WAIT);
    expect(await comes()).toBe(true);
  });
});

describe("the table", () => {
  test("is bounded, and first forgets senders that never came back", async () => {
    const { comes, after, rows } = setUp(10);
    await comes();
    after(WAIT);
    expect(await comes()).toBe(true);
    for (let i = 0; i < 50; i++) {
      await comes({ reversePath: `${String.fromCodePoint(0x4e00 + i)}@flood.example` });
      after(1);
      expect(rows().length).toBeLessThanOrEqual(10);
    }
    expect(await comes()).toBe(true);
    expect(await comes({ reversePath: "\u4e00@flood.example" })).toBe(false);
  });

  test("first loses rows of the network that has most senders waiting", async () => {
    const { comes, after, rows } = setUp(20);
    const host = (i: number) => `${String.fromCodePoint(0x4e00 + i)}@flood.example`;
    await comes();
    await comes({ recipient: "bob@example.test" });
    for (let i = 0; i < 100; i++) {
      await comes({ network: `198.51.${i % 5}.0/24`, reversePath: host(i) });
      expect(rows().length).toBeLessThanOrEqual(20);
    }
    after(WAIT);
    expect(await comes()).toBe(true);
    expect(await comes({ recipient: "bob@example.test" })).toBe(true);
    // Those of the flood that are left are of all its networks, and a sender that returned is no longer of any.
    const counts = Map.groupBy(rows(), ({ network }) => network);
    expect([...counts.values()].map(({ length }) => length).sort()).toEqual([2, 3, 3, 4, 4, 4]);
    expect(counts.get(null)).toHaveLength(2);
  });

  test("of an earlier version is bounded, too", async () => {
    const { comes, rows, store } = setUp(10);
    for (let i = 0; i < 12; i++) {
      store.db
        .insert(table)
        .values({ key: Buffer.from([i]), firstAt: i, expiresAt: i })
        .run();
    }
    await comes();
    expect(rows()).toHaveLength(10);
    expect(rows().map(({ expiresAt }) => expiresAt)).not.toContain(2);
  });

  test("loses expired rows in steps", async () => {
    const { comes, after, rows, greylist, runtime } = setUp();
    await comes();
    after(WAIT);
    await comes();
    for (let i = 0; i < 700; i++) await comes({ recipient: `${String.fromCodePoint(0x4e00 + i)}@example.test` });
    expect(await greylist.job.runDue(runtime.now())).toBe(runtime.now() + 60 * MINUTE);
    expect(rows()).toHaveLength(701);
    after(2 * DAY);
    expect(await greylist.job.runDue(runtime.now())).toBe(runtime.now() + 100);
    expect(rows()).toHaveLength(201);
    await greylist.job.runDue(runtime.now());
    expect(rows()).toHaveLength(1);
  });
});

describe("at the MX listener", () => {
  test("is off by default; when on, unknown senders wait and the others do not", async () => {
    const { core, mx, advance, lines } = await boot();
    const set = (name: string, value: string) => core.store.transact((tx) => core.options.set(tx, name, value));
    set("mx.trustedNetworks", "127.0.0.9/32");
    const rcpt = async (to: string, from = "127.0.0.2", sender = "a@remote.example"): Promise<string> => {
      const client = await connectSmtp(mx, { from });
      await client.expect(250, `MAIL FROM:<${sender}>`);
      const reply = brief(await client.command(`RCPT TO:<${to}>`));
      client.destroy();
      return reply;
    };
    expect(await rcpt("alice@example.test")).toBe("250 2.1.5");
    set("mx.greylistSeconds", "60");
    expect(await rcpt("alice@example.test")).toBe("450 4.7.1");
    // An address of ours as reverse-path earns no trust.
    expect(await rcpt("alice@example.test", "127.0.0.2", "alice@example.test")).toBe("450 4.7.1");
    expect(await rcpt("nobody@example.test")).toBe("550 5.1.1");
    expect(await rcpt("postmaster@example.test")).toBe("250 2.1.5");
    expect(await rcpt("alice@example.test", "127.0.0.9")).toBe("250 2.1.5");
    await advance(MINUTE);
    expect(await rcpt("alice@example.test", "127.0.0.3")).toBe("250 2.1.5");
    expect(lines).toContainEqual(
      expect.objectContaining({ message: "refused", reason: "greylisted", ip: "127.0.0.2" }),
    );
    await advance(40 * DAY);
    expect(core.store.db.select().from(table).all()).toEqual([]);
  });
});
