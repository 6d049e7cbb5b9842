/** DNS-01 with programs of the operator, packaging/nsupdate-hook among them, and a real authority. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createDnsClient, type DnsClient } from "../../src/base/dns-client.ts";
import { createLog } from "../../src/base/log.ts";
import type { Runtime } from "../../src/base/runtime.ts";
import type { ChallengeMode } from "../../src/config.ts";
import { openChallenge } from "../../src/tls/challenge.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Records, randomNumber, type Zone, zone } from "../harness/peers/dns-server.ts";
import { NSUPDATE_HOOK, noKnot, noNsupdate, startKnot } from "../harness/peers/knot.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { HOST, place } from "./acme-place.ts";

const NAME = `_acme-challenge.${HOST}`;
const NS: Zone = { "example.test": { ns: ["ns1.example.test"] }, "ns1.example.test": { a: ["192.0.2.53"] } };

/** The complete lines. */
const linesOf = (path: string): string[] =>
  existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];

/** A hook that records its arguments; `more`: shell lines that follow. */
function hook(more = "") {
  const folder = temporaryFolder();
  const program = join(folder, "hook");
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${folder}/calls\n${more}\n`);
  chmodSync(program, 0o700);
  const calls = (): string[] => linesOf(join(folder, "calls"));
  return {
    folder,
    program,
    calls,
    /** The records published by then, by name. */
    texts(name: string): string[] {
      const texts = new Set<string>();
      for (const call of calls()) {
        const [action, of, value = ""] = call.split(" ");
        if (of === `${name}.` && action === "present") texts.add(value);
        if (of === `${name}.` && action === "cleanup") texts.delete(value);
      }
      return [...texts];
    },
    rewrite: (lines: string) => writeFileSync(program, `#!/bin/sh\necho "$@" >> ${folder}/calls\n${lines}\n`),
  };
}

/** The record that a hook publishes at a name. */
const publishedBy = ({ texts }: ReturnType<typeof hook>, name = NAME): Records => ({
  get txt() {
    return texts(name);
  },
});

const log = createLog("silent", Date.now, () => {});

/** A challenge in a data folder of its own, with this DNS. */
function challengeOf(mode: ChallengeMode, world: Partial<Runtime> = {}, folder = temporaryFolder()) {
  const runtime = fakeRuntime({ dns: zone(NS), ...world });
  const lines: Record<string, unknown>[] = [];
  const noting = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  const challenge = openChallenge(mode, { folder, runtime, log: noting });
  return { challenge, runtime, folder, lines, file: join(folder, "tls/acme/records.json") };
}

const PROOF = { host: HOST, token: "token", value: "a-digest" };

describe.skipIf(noPebble !== undefined)("a real authority gives a certificate", () => {
  test("for records that a hook publishes one after the other, and removes", async () => {
    const script = hook();
    const names: Zone = { ...NS, [NAME]: publishedBy(script) };
    names["_acme-challenge.app.example.test"] = publishedBy(script, "_acme-challenge.app.example.test");
    const pebble = await startPebble(names);
    const at = place(pebble, { challenge: { type: "dns-hook", program: script.program }, world: { dns: zone(names) } });
    const { look, seen, trouble } = await at.open(["app.example.test"]);
    await look();
    expect([seen.length, trouble()]).toEqual([1, undefined]);
    // The authority chooses the order.
    const calls = script.calls().map((call) => call.split(" ").slice(0, 2).join(" "));
    const both = (action: string) => [`${action} _acme-challenge.app.example.test.`, `${action} ${NAME}.`];
    expect([calls.slice(0, 2).sort(), calls.slice(2).sort()]).toEqual([both("present"), both("cleanup")]);
    expect([script.texts(NAME), existsSync(at.file("records.json"))]).toEqual([[], false]);
    expect(pebble.asked).toEqual([]);
  }, 120_000);

  test.skipIf((noKnot ?? noNsupdate) !== undefined)(
    "for a record that nsupdate writes at a real DNS server, at the target of a CNAME",
    async () => {
      const target = "mail.proofs.example.test";
      const knot = await startKnot({ "example.test": [`${NAME}. 60 CNAME ${target}.`] });
      const names: Zone = { ...NS, [NAME]: { cname: target } };
      const real = createDnsClient({ servers: [`127.0.0.1:${knot.port}`], randomNumber, elapsed: () => 0 });
      const asked: string[] = [];
      const resolver = zone(names);
      // The network leads the address of the name server to the real one.
      const dns: DnsClient = {
        ...resolver,
        ask(name, type, servers) {
          if (servers === undefined) return resolver.ask(name, type);
          asked.push(...servers.map(({ host, port }) => `${host}:${port} ${name}`));
          return real.ask(name, type);
        },
      };
      // Pebble asks one server for everything, which knows where the alias leads.
      const pebble = await startPebble({}, { dns: `127.0.0.1:${knot.port}` });
      const program = join(temporaryFolder(), "hook");
      const settings = `NSUPDATE_SERVER=127.0.0.1 NSUPDATE_PORT=${knot.port} NSUPDATE_KEY=${knot.keyFile}`;
      writeFileSync(program, `#!/bin/sh\nexport ${settings}\nexec ${NSUPDATE_HOOK} "$@"\n`, { mode: 0o700 });
      const challenge = { type: "dns-hook", program } as const;
      const at = place(pebble, { challenge, world: { dns } });
      const { look, seen, trouble } = await at.open();
      await look();
      expect([trouble(), seen.length]).toEqual([undefined, 1]);
      expect(asked).toEqual([`192.0.2.53:53 ${target}`]);
      expect((await real.ask(target, "TXT")).records).toEqual([]);
      expect(JSON.stringify(at.lines)).not.toContain(knot.secret);
    },
    120_000,
  );

  test("for the names that can be proven, and leaves out the others together", async () => {
    const script = hook('case "$2" in *.other.test.) exit 1;; esac');
    const names: Zone = { ...NS, [NAME]: publishedBy(script) };
    names["_acme-challenge.app.example.test"] = publishedBy(script, "_acme-challenge.app.example.test");
    const pebble = await startPebble(names);
    const at = place(pebble, { challenge: { type: "dns-hook", program: script.program }, world: { dns: zone(names) } });
    const { look, current, trouble } = await at.open([
      "app.example.test",
      "mta-sts.one.other.test",
      "mta-sts.two.other.test",
    ]);
    await look();
    const { failures, reason = "", retryAt = 0 } = trouble() ?? {};
    expect(failures).toBe(1);
    for (const name of ["one", "two"])
      expect(reason).toContain(`mta-sts.${name}.other.test: ${script.program} present`);
    at.runtime.advanceTo(retryAt);
    await look();
    expect(trouble()).toBeUndefined();
    const { subjectAltName = "" } = new X509Certificate(current().cert);
    expect(subjectAltName.split(", ").sort()).toEqual(["DNS:app.example.test", `DNS:${HOST}`]);
  }, 120_000);

  test("only if the hook succeeds: a failure is reported and retried, and the authority is not asked to look", async () => {
    const script = hook("echo token=s3cret; echo s3cret >&2; exit 3");
    const pebble = await startPebble({ ...NS, [NAME]: publishedBy(script) });
    const at = place(pebble, { challenge: { type: "dns-hook", program: script.program } });
    const { look, trouble, seen } = await at.open();
    await look();
    const reason = `${HOST}: ${script.program} present ${NAME}. ended with status 3`;
    expect(trouble()).toMatchObject({ failures: 1, reason: expect.stringContaining(reason) });
    expect([seen, existsSync(at.file("order.json"))]).toEqual([[], false]);
    expect(JSON.stringify(at.lines) + readFileSync(at.file("state.json"), "utf8")).not.toContain("s3cret");
    // A record that the hook could not remove is removed later.
    expect(JSON.parse(readFileSync(at.file("records.json"), "utf8"))).toHaveLength(1);
    const calls = script.calls().length;
    await look();
    expect(script.calls()).toHaveLength(calls);
  }, 120_000);
});

describe("a hook", () => {
  test("that does not end is killed with its children after two minutes", async () => {
    const script = hook("sleep 600 & echo $! > $0.new; mv $0.new $0.pid; wait");
    const { challenge, runtime } = challengeOf({ type: "dns-hook", program: script.program });
    const shown = challenge.show(PROOF);
    let failed = false;
    shown.catch(() => {
      failed = true;
    });
    while (!existsSync(`${script.program}.pid`)) await Bun.sleep(5);
    runtime.advanceTo(runtime.now() + 119_000);
    expect(failed).toBe(false);
    runtime.advanceTo(runtime.now() + 1_000);
    await expect(shown).rejects.toThrow(`${script.program} present ${NAME}. did not end within 120 s`);
    const pid = Number(readFileSync(`${script.program}.pid`, "utf8"));
    // Its parent is gone: another process reaps it in its own time.
    while (existsSync(`/proc/${pid}`) && !/State:\s+Z/.test(readFileSync(`/proc/${pid}/status`, "utf8"))) {
      await Bun.sleep(5);
    }
  });

  test("gets name and value unchanged, without a shell", async () => {
    const script = hook();
    const dns = zone({
      [NAME]: { cname: "$(touch;x).example.test" },
      "$(touch;x).example.test": publishedBy(script, "x"),
    });
    const { challenge } = challengeOf({ type: "dns-hook", program: script.program }, { dns });
    const shown = challenge.show({ ...PROOF, value: "-n" }).catch(() => {});
    while (script.calls().length === 0) await Bun.sleep(5);
    expect(script.calls()).toEqual(["present $(touch;x).example.test. -n"]);
    challenge.stop?.();
    await shown;
  });

  test.each([
    ["is not there", () => "/nowhere/hook"],
    [
      "may not be run",
      () => {
        const { program } = hook();
        chmodSync(program, 0o600);
        return program;
      },
    ],
  ])("that %s is refused at the start", (_, program) => {
    const path = program();
    expect(() =>
      openChallenge({ type: "dns-hook", program: path }, { folder: "/", runtime: fakeRuntime(), log }),
    ).toThrow(new RegExp(`MAILROOM_ACME_CHALLENGE: cannot run ${path}`));
  });
});

describe("a record", () => {
  /** DNS servers by address, and the texts that each answers for any TXT record. */
  function servers(texts: Record<string, string[] | "silence">, more: Zone = {}): { dns: DnsClient } {
    const addresses = Object.keys(texts);
    const names: Zone = { "example.test": { ns: ["ns1.example.test"] }, "ns1.example.test": { a: addresses } };
    const resolver = zone({ ...names, ...more });
    // The network leads each address to the server of its name in this zone.
    const answering = zone(
      Object.fromEntries(
        addresses.map((address): [string, Zone[string]] => {
          const given = () => texts[address] ?? "silence";
          const record: Records = {
            get txt() {
              const found = given();
              return found === "silence" ? [] : found;
            },
          };
          return [address, given() === "silence" ? "silence" : record];
        }),
      ),
    );
    const dns: DnsClient = {
      ...resolver,
      ask: (name, type, to) => (to ? answering.ask(to[0]?.host ?? "", type) : resolver.ask(name, type)),
    };
    return { dns };
  }

  /** Moves the clock from wait to wait until the end; returns how long it took, ms. */
  async function waited(runtime: ReturnType<typeof fakeRuntime>, shown: Promise<void>, change = () => {}) {
    const begin = runtime.now();
    let isOver = false;
    const over = shown.finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      const next = runtime.nextTimer();
      // The hook's own limit is longer than any wait.
      if (next !== undefined && next - runtime.now() <= 20_000) {
        change();
        runtime.advanceTo(next);
      }
    }
    await over;
    return runtime.now() - begin;
  }

  test("is awaited until every server that answers has it", async () => {
    const texts: Record<string, string[] | "silence"> = {
      "192.0.2.1": [PROOF.value],
      "192.0.2.2": [],
      "192.0.2.3": "silence",
    };
    const { challenge, runtime } = challengeOf({ type: "dns-hook", program: hook().program }, servers(texts));
    let waits = 0;
    const change = () => {
      if (++waits === 3) texts["192.0.2.2"] = ["another", PROOF.value];
    };
    expect(await waited(runtime, challenge.show(PROOF), change)).toBe(7_000);
  });

  test("that a server never has fails after five minutes, with the name of the server", async () => {
    const texts = { "192.0.2.1": [PROOF.value], "192.0.2.2": ["another"] };
    const { challenge, runtime } = challengeOf({ type: "dns-hook", program: hook().program }, servers(texts));
    const gaveUp = await waited(runtime, challenge.show(PROOF)).catch((error: Error) => error.message);
    expect(gaveUp).toBe(`after 5 minutes, DNS server 192.0.2.2 still lacks the TXT record ${NAME}`);
  });

  test("is looked up by the system's resolver when no server can be asked", async () => {
    const script = hook();
    const { dns } = servers({ "192.0.2.53": "silence" }, { [NAME]: publishedBy(script) });
    const { challenge, runtime } = challengeOf({ type: "dns-hook", program: script.program }, { dns });
    expect(await waited(runtime, challenge.show(PROOF))).toBe(0);
  });

  test("is published one at a time, and all are awaited together", async () => {
    const script = hook('[ "$1" = cleanup ] || { mkdir $0.busy || exit 9; sleep 0.05; rmdir $0.busy; }');
    const values = ["one", "two", "three"];
    // As soon as the last is published, whenever it is looked for.
    const texts = {
      get "192.0.2.1"() {
        return script.calls().length < 3 ? [] : values;
      },
    };
    const { challenge, runtime } = challengeOf({ type: "dns-hook", program: script.program }, servers(texts));
    const shown = values.map((value) => challenge.show({ host: `${value}.example.test`, token: "token", value }));
    const all = Promise.all(shown).then(() => {});
    while (script.calls().length < 3) await Bun.sleep(5);
    // The time that the first two waited, but together.
    expect(await waited(runtime, all)).toBe(1_000);
  });

  test("is removed after a crash, and once more where that failed", async () => {
    const script = hook();
    const dns = zone({ ...NS, [NAME]: publishedBy(script) });
    const mode = { type: "dns-hook", program: script.program } as const;
    const { challenge, folder, file } = challengeOf(mode, { dns });
    await challenge.show(PROOF);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual([{ name: NAME, value: PROOF.value }]);
    script.rewrite("exit 1");
    const second = challengeOf(mode, { dns }, folder);
    await second.challenge.clear();
    expect(second.lines).toMatchObject([{ level: "warn", name: NAME }]);
    expect(existsSync(file)).toBe(true);
    script.rewrite("");
    const third = challengeOf(mode, { dns }, folder);
    await third.challenge.clear();
    expect([script.texts(NAME), existsSync(file)]).toEqual([[], false]);
    const calls = script.calls().length;
    await third.challenge.clear();
    expect(script.calls()).toHaveLength(calls);
  });

  test("is published although records.json is damaged", async () => {
    const { challenge, file, folder } = challengeOf({ type: "dns-hook", program: hook().program });
    mkdirSync(join(folder, "tls/acme"), { recursive: true });
    writeFileSync(file, '[{"name":');
    await challenge.clear();
    rmSync(file);
  });

  test("is removed when the server stops, which waits three seconds at most", async () => {
    const script = hook();
    const dns = zone({ ...NS, [NAME]: publishedBy(script) });
    const { challenge, file } = challengeOf({ type: "dns-hook", program: script.program }, { dns });
    await challenge.show(PROOF);
    challenge.stop?.();
    await challenge.clear();
    expect([script.texts(NAME), existsSync(file)]).toEqual([[], false]);
    // No call begins any more.
    const calls = script.calls().length;
    await expect(challenge.show(PROOF)).rejects.toThrow("stopping");
    expect(script.calls()).toHaveLength(calls);

    const slow = hook('[ "$1" = present ] || { touch $0.cleaning; sleep 600; }');
    const names = zone({ ...NS, [NAME]: publishedBy(slow) });
    const waiting = challengeOf({ type: "dns-hook", program: slow.program }, { dns: names });
    await waiting.challenge.show(PROOF);
    waiting.challenge.stop?.();
    const cleared = waiting.challenge.clear();
    while (!existsSync(`${slow.program}.cleaning`)) await Bun.sleep(5);
    waiting.runtime.advanceTo(waiting.runtime.now() + 3_000);
    await cleared;
    expect(existsSync(waiting.file)).toBe(true);
  });
});
