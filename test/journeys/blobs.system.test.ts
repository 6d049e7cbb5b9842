/** Attachments in S3, over SMTP, REST and the command line: a real S3 server behind a proxy that misbehaves. */
import { describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as outbound from "../../src/admin/outbound.ts";
import { checkBlobBytes } from "../../src/doctor/checks/blob-bytes.ts";
import { checkBlobs } from "../../src/doctor/checks/blob-checks.ts";
import { runDoctorChecks } from "../../src/doctor/doctor.ts";
import { operatingSystem } from "../../src/doctor/system.ts";
import { blobPath, openBlobs } from "../../src/store/blobs.ts";
import { claimBlobMove } from "../../src/store/claim.ts";
import { apiClient } from "../harness/clients/api.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp, type Reply } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { filesIn, hurriedRuntime, keyOf } from "../harness/peers/remote-blobs.ts";
import { deliverTo, type RemoteMx, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { type Interference, noS3, type S3, startS3 } from "../harness/peers/s3.ts";
import { type Booted, boot, bootEmpty } from "../harness/servers/boot.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";

const sha256 = (content: string): string => createHash("sha256").update(content).digest("hex");

/** A message with files of these texts. */
const withFiles = (subject: string, ...files: string[]): string =>
  [
    "From: carol@remote.example",
    "To: alice@example.test",
    `Subject: ${subject}`,
    `Message-ID: <${sha256(subject + files.join()).slice(0, 20)}@remote.example>`,
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="b"',
    "",
    "--b",
    "Content-Type: text/plain",
    "",
    `body of ${subject}`,
    ...files.flatMap((text, n) => [
      "--b",
      "Content-Type: application/octet-stream",
      `Content-Disposition: attachment; filename="${n}.bin"`,
      "Content-Transfer-Encoding: base64",
      "",
      Buffer.from(text).toString("base64"),
    ]),
    "--b--",
    "",
  ].join("\r\n");

interface Office extends Booted {
  s3: S3;
  /** Hands in a message as another server does. */
  deliver(message: string): Promise<Reply>;
  /** The attachments of the newest message with that subject. */
  attached(subject: string): Promise<{ id: string; url: string }[]>;
  /** The number of messages with that subject. */
  count(subject: string): Promise<number>;
  inCache(): string[];
  inFiles(): string[];
  /** Moves the clock in steps in which no request to S3 runs out of time. */
  pass(ms: number): Promise<void>;
  /** Waits for work that waits on the clock, which moves meanwhile. */
  pressOn<T>(work: Promise<T>): Promise<T>;
  remote: RemoteMx;
  /** A command beside the server. */
  terminal: ReturnType<typeof openTerminal>;
}

async function open(env: Record<string, string> = {}, s3?: S3): Promise<Office> {
  const server = s3 ?? (await startS3());
  const data = temporaryFolder();
  const remote = await startRemoteMx({});
  const place = { MAILROOM_BLOBS: server.url, ...server.credentials };
  const booted = await boot(
    { MAILROOM_DATA: data, ...place, ...env },
    zone({ "remote.example": { mx: [[10, "mx.remote.example"]] }, "mx.remote.example": { a: [remote.host] } }),
    { fetch, file: join(data, "mailroom.db") },
  );
  deliverTo(remote, booted.core);
  const { api, runtime } = booted;
  const messages = async (subject: string) =>
    (await api.get<{ messages: { id: string; subject: string }[] }>("/messages?limit=100")).body.messages.filter(
      (message) => message.subject === subject,
    );
  return {
    ...booted,
    s3: server,
    remote,
    async deliver(message) {
      const smtp = await connectSmtp(booted.mx);
      try {
        return await smtp.deliver({ to: "alice@example.test" }, message);
      } finally {
        smtp.destroy();
      }
    },
    async attached(subject) {
      const [message] = await messages(subject);
      const { body } = await api.get<{ message: { attachments: { id: string; url: string }[] } }>(
        `/messages/${message?.id}`,
      );
      return body.message.attachments;
    },
    count: async (subject) => (await messages(subject)).length,
    inCache: () => filesIn(join(data, "blob-cache")).sort(),
    inFiles: () => filesIn(join(data, "blobs")).sort(),
    async pass(ms) {
      for (let passed = 0; passed < ms; passed += 5_000) await booted.advance(5_000);
    },
    async pressOn(work) {
      let isDone = false;
      const done = work.finally(() => {
        isDone = true;
      });
      while (!isDone) {
        await Bun.sleep(1);
        runtime.advanceTo(runtime.now() + 100);
      }
      return done;
    },
    terminal: openTerminal({
      data,
      env: place,
      interrupted: new Promise(() => {}),
      runtime: { setTimer: hurriedRuntime().setTimer },
    }),
  };
}

/** Erases Alice, hours later, when what nobody names is swept. Bob owns the workspace from then on. */
async function eraseAlice({ data }: Office["terminal"], s3: S3): Promise<void> {
  const later = openTerminal({
    data,
    env: { MAILROOM_BLOBS: s3.url, ...s3.credentials },
    runtime: { now: () => Date.now() + 2 * 3_600_000 },
  });
  await later.ask("user", "add", "bob@example.test", "--name", "Bob", "--role", "owner");
  await later.ask("user", "remove", "alice@example.test", "--erase", "--yes");
}

const denied = () => new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 });
const slowDown = () => new Response("<Error><Code>SlowDown</Code></Error>", { status: 503 });

describe.skipIf(noS3 !== undefined)(`attachments in S3${noS3 ? `: ${noS3}` : ""}`, () => {
  test("what arrives and what is sent is there before it is answered for, and is read from there", async () => {
    const { deliver, attached, api, s3, core, inFiles, inCache, lines } = await open();
    const large = "0123456789".repeat(30_000);
    let stored = 0;
    let isFiled = false;
    core.store.onCommit(() => {
      isFiled ||= core.store.db.query.attachments.findFirst().sync() !== undefined;
    });
    s3.interfere((request, forward) => {
      if (request.method !== "PUT" || new URL(request.url).pathname.endsWith("/owner")) return undefined;
      return forward().then((response) => {
        if (!isFiled) stored++;
        return response;
      });
    });
    expect((await deliver(withFiles("files", "one", "two", large))).code).toBe(250);
    expect(stored).toBe(3);
    for (const text of ["one", "two", large]) {
      expect(await s3.direct.file(keyOf(sha256(text))).text()).toBe(text);
    }
    const [one, , long] = await attached("files");
    const sent = await api.post("/send", {
      from: "alice@example.test",
      to: ["dan@remote.example"],
      subject: "sent",
      text: "x",
      attachments: [{ filename: "note.txt", text: "a note" }, { attachmentId: one?.id }, { attachmentId: long?.id }],
    });
    expect(sent.status).toBe(202);
    expect(await s3.direct.file(keyOf(sha256("a note"))).text()).toBe("a note");
    // The message as it is transmitted is large, too.
    const [{ blob } = { blob: null }] = core.store.db.query.outboundContents.findMany().sync();
    expect(await s3.direct.exists(keyOf(blob ?? ""))).toBe(true);
    expect(inFiles()).toEqual([]);

    await core.store.remote?.cache.clear();
    expect(Buffer.from((await api.bytes(long?.url.replace(/^.*\/api\/v1/, "") ?? "")).body).toString()).toBe(large);
    expect(inCache()).toContain(sha256(large));
    const raw = await api.bytes(
      `/messages/${(await api.get<{ messages: { id: string }[] }>("/messages")).body.messages[0]?.id}/raw`,
    );
    expect(Buffer.from(raw.body).toString()).toContain(Buffer.from("one").toString("base64"));
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("a range of an attachment is answered once it is here", async () => {
    const { deliver, attached, core, http, owner } = await open();
    await deliver(withFiles("range", "0123456789"));
    await core.store.remote?.cache.clear();
    const [file] = await attached("range");
    const answer = await fetch(new URL(file?.url ?? "", http), {
      headers: { authorization: `Bearer ${owner.apiKey}`, range: "bytes=2-4" },
    });
    expect([answer.status, await answer.text()]).toEqual([206, "234"]);
  });

  test("with S3 down or credentials revoked, mail without attachments flows, and the rest waits", async () => {
    const { deliver, attached, count, api, s3, core, pass, http, lines, inCache } = await open();
    await deliver(withFiles("here", "in the cache"));
    await deliver(withFiles("there", "only in S3"));
    await core.store.remote?.cache.drop(sha256("only in S3"));
    const [here] = await attached("here");
    const [there] = await attached("there");
    const path = (url = "") => url.replace(/^.*\/api\/v1/, "");

    s3.interfere(denied);
    expect((await deliver(letter({ subject: "plain" }))).code).toBe(250);
    expect(await deliver(withFiles("waits", "later"))).toMatchObject({ code: 452, status: "4.3.1" });
    expect([await count("plain"), await count("waits")]).toEqual([1, 0]);
    expect(inCache()).toEqual([sha256("in the cache")]);
    const message = { from: "alice@example.test", to: ["dan@remote.example"], subject: "out", text: "x" };
    expect((await api.post("/send", message)).status).toBe(202);
    const refused = await api.post("/send", { ...message, attachments: [{ filename: "a.txt", text: "a" }] });
    expect(refused).toMatchObject({ status: 503, body: { code: "server_error" } });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await api.bytes(path(here?.url))).status).toBe(200);
    const missing = await api.get(path(there?.url));
    expect([missing.status, missing.body.code]).toEqual([503, "server_error"]);

    await pass(60_000);
    const health = await fetch(`${http}/healthz`);
    expect([health.status, await health.json()]).toMatchObject([200, { status: "ok", blobs: "s3 (failing)" }]);
    const metrics = await (await fetch(`${http}/metrics`)).text();
    expect(metrics).toContain("mailroom_blobs_s3_up 0\n");
    expect(metrics).toMatch(/mailroom_blobs_s3_requests_total\{method="PUT",outcome="failed"\} [1-9]/);
    expect(metrics).toMatch(/mailroom_blobs_s3_requests_total\{method="PUT",outcome="ok"\} 3\n/);
    expect(metrics).toContain('mailroom_blobs_cache_reads_total{result="hit"} 1\n');
    expect(metrics).toMatch(/mailroom_blobs_s3_bytes_total\{direction="to"\} 22\n/);
    expect(lines.filter(({ message }) => String(message).startsWith("S3 fails"))).toMatchObject([
      { reason: expect.stringContaining("403 AccessDenied") },
    ]);
    expect(JSON.stringify(lines)).not.toMatch(/X-Amz|secret-of-the-test/);

    s3.interfere(undefined);
    await pass(60_000);
    expect((await deliver(withFiles("waits", "later"))).code).toBe(250);
    expect(await count("waits")).toBe(1);
    expect((await api.bytes(path(there?.url))).status).toBe(200);
    expect(await (await fetch(`${http}/healthz`)).json()).toMatchObject({ blobs: "s3" });
    expect(lines.some(({ message }) => message === "S3 works again")).toBe(true);
  });

  test("an S3 server that asks for patience gets it; one that hangs costs the sender's patience at most, and nobody else", async () => {
    const { deliver, count, s3, pressOn, inCache, runtime } = await open();
    let left = 2;
    s3.interfere(() => (left-- > 0 ? slowDown() : undefined));
    expect((await pressOn(deliver(withFiles("patience", "slow down")))).code).toBe(250);

    const hang = new Promise<Response>(() => {});
    const hangs: Interference = () => hang;
    s3.interfere(hangs);
    s3.asked.length = 0;
    const waiting = deliver(withFiles("hangs", "never there"));
    while (s3.asked.length === 0) await Bun.sleep(1);
    expect((await deliver(letter({ subject: "meanwhile" }))).code).toBe(250);
    const begun = runtime.now();
    expect((await pressOn(waiting)).code).toBe(452);
    expect(runtime.now() - begun).toBeLessThan(46_000);
    expect([await count("meanwhile"), await count("hangs")]).toEqual([1, 0]);
    expect(inCache()).toEqual([sha256("slow down")]);
    // The next is refused at once.
    s3.asked.length = 0;
    expect((await deliver(withFiles("next", "not tried"))).code).toBe(452);
    expect(s3.asked).toEqual([]);
  });

  test("mail in the queue waits for S3, and then leaves whole", async () => {
    const { api, s3, core, opened, server, pass, remote, owner } = await open();
    remote.script({ mail: "451 4.7.1 later" });
    const text = "large ".repeat(60_000);
    const sent = await api.post("/send", {
      from: "alice@example.test",
      to: ["dan@remote.example"],
      subject: "large",
      text: "x",
      attachments: [{ filename: "a.txt", text }],
    });
    expect(sent.status).toBe(202);
    await server.settled();
    remote.script({ mail: undefined });
    await core.store.remote?.cache.clear();
    s3.interfere(denied);
    await pass(90_000);
    const queue = [...outbound.listQueue(opened.core, owner.workspaceId)];
    expect(queue).toMatchObject([{ state: "waiting" }]);
    expect(remote.messages).toEqual([]);
    s3.interfere(undefined);
    await pass(400_000);
    const encoded = Buffer.from(text).toString("base64");
    expect(remote.messages[0]?.content.replaceAll(/\r?\n/g, "")).toContain(encoded);
    expect([...outbound.listQueue(opened.core, owner.workspaceId)]).toEqual([]);
  });

  test("a sender is told of a failure while S3 fails, too", async () => {
    const { api, s3, server, remote, attached, inFiles } = await open();
    remote.script({ rcpt: "550 5.1.1 nobody" });
    s3.interfere(denied);
    const message = { from: "alice@example.test", to: ["dan@remote.example"], subject: "x", text: "x" };
    expect((await api.post("/send", message)).status).toBe(202);
    await server.settled();
    const subject = "Not delivered: x";
    const files = await attached(subject);
    expect(files.length).toBeGreaterThan(0);
    expect(inFiles()).toHaveLength(files.length);
    for (const { url } of files) expect((await api.bytes(url.replace(/^.*\/api\/v1/, ""))).status).toBe(200);
  });

  test("moves to S3 and back beside the running server keep every byte, and go on where they stopped", async () => {
    const files = Array.from({ length: 12 }, (_, n) => `file ${n}`);
    const { deliver, attached, api, s3, inFiles, inCache, terminal, core, opened } = await open();
    const { ask, say, data } = terminal;
    // As if MAILROOM_BLOBS had been set after they came.
    const before = openBlobs(join(data, "blobs"), { now: Date.now, randomBytes });
    expect((await deliver(withFiles("moved", ...files))).code).toBe(250);
    for (const text of files) {
      await before.write(Buffer.from(text));
      await s3.direct.delete(keyOf(sha256(text)));
    }
    await core.store.remote?.cache.clear();
    const readAll = async () => {
      for (const [n, { url }] of (await attached("moved")).entries()) {
        const { status, body } = await api.bytes(url.replace(/^.*\/api\/v1/, ""));
        expect([status, Buffer.from(body).toString()]).toEqual([200, files[n] ?? ""]);
      }
    };
    const isThere = () => Promise.all(files.map((text) => s3.direct.exists(keyOf(sha256(text)))));
    const doctor = async () => {
      const findings = await runDoctorChecks(
        { ...opened, ...core, system: operatingSystem, serving: true },
        { blobs: checkBlobs },
      );
      return findings.map(({ id, state, detail }) => `${id} ${state} ${detail.replace(/\d+ ms|http\S+/g, "…")}`);
    };
    await readAll();
    expect(await doctor()).toEqual([
      "blobs ok … answers in …",
      "blobs-target warning 12 files are still in the data folder alone",
    ]);

    // S3 fails in the midst.
    let left = 5;
    s3.interfere((request) => (request.method === "PUT" && left-- <= 0 ? denied() : undefined));
    const failed = await say("blobs", "move", "--to", "s3");
    expect(failed).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("403 AccessDenied") });
    await readAll();
    s3.interfere(undefined);
    const release = claimBlobMove(data);
    expect(await say("blobs", "move", "--to", "files")).toMatchObject({
      exitCode: 1,
      stderr: "mailroom: another move is under way\n",
    });
    release?.();
    const moving = ask<{ moved: number; bytes: number }>("blobs", "move", "--to", "s3");
    const [, arrived] = await Promise.all([readAll(), deliver(withFiles("meanwhile", "arrives during the move"))]);
    expect(arrived.code).toBe(250);
    expect(await moving).toEqual({ to: "s3", moved: 12, bytes: files.join("").length } as never);
    expect(inFiles()).toEqual([]);
    expect(await isThere()).toEqual(files.map(() => true));
    expect(await doctor()).toEqual(["blobs ok … answers in …"]);
    await readAll();
    expect(await ask("blobs", "move", "--to", "s3")).toMatchObject({ moved: 0 });

    // Back, with a damaged copy in the cache, which does not count.
    const [first = ""] = files;
    writeFileSync(core.store.remote?.cache.localBlobPath(sha256(first)) ?? "", "damaged");
    const back = ask("blobs", "move", "--to", "files");
    expect((await deliver(withFiles("later", "arrives during the way back"))).code).toBe(250);
    expect(await back).toMatchObject({ to: "files" });
    const all = [...files, "arrives during the move", "arrives during the way back"].map(sha256).sort();
    expect(inFiles()).toEqual(all);
    expect(inCache()).toEqual([]);
    s3.interfere(denied);
    await readAll();
    // New ones are files, too, although MAILROOM_BLOBS is still set.
    expect((await deliver(withFiles("after", "after the move"))).code).toBe(250);
    expect(inFiles()).toContain(sha256("after the move"));
    s3.interfere(undefined);
    expect(await doctor()).toEqual([
      "blobs ok … answers in …",
      "blobs-target warning they were moved back: new ones are files, though MAILROOM_BLOBS is set",
    ]);
    // Without MAILROOM_BLOBS, all is there.
    expect((await openTerminal({ data }).say("settings", "get", "blobs.cacheBytes")).exitCode).toBe(0);
  });

  test("objects with other bytes are never served: they are damaged, not away, named, and mended by what arrives", async () => {
    const { deliver, attached, api, s3, core, opened, inFiles, terminal, runtime, owner, ready, pass } = await open({
      MAILROOM_IMAPS: "127.0.0.1:0",
    });
    const texts = ["flipped", "short", "empty", "whole"].map((word) => word.padEnd(2_000, "."));
    const [flipped = "", short = "", empty = "", whole = ""] = texts.map(sha256);
    await deliver(withFiles("damaged", ...texts));
    const statuses = async () => {
      const urls = (await attached("damaged")).map(({ url }) => url.replace(/^.*\/api\/v1/, ""));
      const answers: [number, string | null][] = [];
      for (const url of urls) {
        const { status, headers } = await api.bytes(url);
        answers.push([status, headers.get("retry-after")]);
      }
      return answers;
    };
    await core.store.remote?.cache.clear();
    const password = appPassword({ core, runtime, owner });
    const app = await imapAccount(Number(ready.imaps?.split(":")[1]), "alice@example.test", password);
    await app.say("SELECT INBOX");
    const fetched = async () => (await app.say("FETCH 1 BODY.PEEK[]")).text;

    // Out of reach is another thing.
    s3.interfere(denied);
    expect(await statuses()).toEqual(texts.map(() => [503, "5"]));
    expect(await fetched()).toStartWith("[UNAVAILABLE] ");
    s3.interfere(undefined);
    await pass(10_000);

    await s3.direct.write(keyOf(flipped), "flippeD");
    await s3.direct.write(keyOf(short), "shor");
    await s3.direct.write(keyOf(empty), "");
    await core.store.remote?.cache.clear();
    expect(await statuses()).toEqual([
      [500, null],
      [500, null],
      [500, null],
      [200, null],
    ]);
    expect(await fetched()).toStartWith("[SERVERBUG] ");
    app.end();

    const lost = [flipped, short, empty].sort();
    const look = () =>
      runDoctorChecks({ ...opened, ...core, system: operatingSystem, serving: true }, { bytes: checkBlobBytes });
    expect(await look()).toMatchObject([
      { state: "bad", detail: `all 4 were read; damaged: ${lost.join(", ")}`, todo: expect.stringContaining("blobs") },
    ]);
    for (const moved of [1, 0]) {
      const said = await terminal.say("blobs", "move", "--to", "files", "--json");
      expect([said.exitCode, said.stderr]).toEqual([1, expect.stringContaining("3 files were left alone")]);
      expect(JSON.parse(said.stdout)).toMatchObject({ to: "files", moved, lost });
    }
    expect(inFiles()).toEqual([whole]);

    expect((await deliver(withFiles("again", ...texts))).code).toBe(250);
    expect((await statuses()).map(([status]) => status)).toEqual([200, 200, 200, 200]);
    expect(await look()).toMatchObject([{ state: "ok", detail: "all 4 were read, and are whole" }]);
    expect(await terminal.ask("blobs", "move", "--to", "files")).toMatchObject({ to: "files", moved: 0 });
    expect((await openTerminal({ data: terminal.data }).say("settings", "list")).exitCode).toBe(0);
  }, 120_000);

  test("without the place of its attachments, or with another, nothing starts", async () => {
    const { terminal, deliver, s3 } = await open();
    await deliver(withFiles("kept", "kept in S3"));
    const { data } = terminal;
    const other = { MAILROOM_BLOBS: s3.url.replace("/team", "/other"), ...s3.credentials };
    for (const env of [{}, other]) {
      const said = await openTerminal({ data, env }).say("settings", "list");
      expect(said).toMatchObject({
        exitCode: 1,
        stderr: expect.stringContaining("it has files of mail in S3 at http"),
      });
      const backup = await openTerminal({ data, env }).say("backup", join(temporaryFolder(), "backup"));
      expect(backup).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("MAILROOM_BLOBS") });
    }
    expect((await openTerminal({ data: temporaryFolder() }).say("blobs", "move", "--to", "s3")).exitCode).toBe(2);
    expect((await terminal.say("blobs", "move")).exitCode).toBe(2);
  });

  test("a backup has the attachments that are only in S3, and is restored without it", async () => {
    const { terminal, deliver, s3, core, api, attached } = await open();
    await deliver(withFiles("backed up", "cached", "far away"));
    await core.store.remote?.cache.drop(sha256("far away"));
    const folder = join(temporaryFolder(), "backup");
    s3.interfere(denied);
    const failed = await terminal.say("backup", folder);
    expect(failed).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("403 AccessDenied") });
    s3.interfere(undefined);
    expect(await terminal.ask("backup", folder)).toMatchObject({ blobs: 2, copied: 2, lacking: [] });
    expect(await terminal.ask("backup", folder, "--reread")).toMatchObject({ blobs: 2, copied: 0 });
    expect(await terminal.ask("backup", "verify", folder)).toMatchObject({ ok: true, blobs: 2 });

    s3.interfere(denied);
    const restored = openTerminal({});
    await restored.ask("restore", folder);
    expect(filesIn(join(restored.data, "blobs")).sort()).toEqual(["cached", "far away"].map(sha256).sort());
    expect(existsSync(join(restored.data, "blobs.json"))).toBe(false);
    expect(existsSync(join(restored.data, "blob-cache"))).toBe(false);
    s3.interfere(undefined);

    // An encrypted one, and one of which S3 has lost a file.
    const identity = join(temporaryFolder(), "key.txt");
    const { recipient } = await terminal.ask<{ recipient: string }>("backup", "key", identity);
    await terminal.ask("settings", "set", "backup.recipients", recipient);
    const sealed = join(temporaryFolder(), "sealed");
    expect(await terminal.ask("backup", sealed)).toMatchObject({ blobs: 2, lacking: [] });
    expect(await terminal.ask("backup", "verify", sealed, "--identity", identity)).toMatchObject({ ok: true });
    await terminal.ask("settings", "set", "backup.recipients", "none");
    for (const spoil of [
      () => s3.direct.write(keyOf(sha256("far away")), "far awaY"),
      () => s3.direct.delete(keyOf(sha256("far away"))),
    ]) {
      await spoil();
      const lacking = await terminal.say("backup", join(temporaryFolder(), "lacking"), "--json");
      expect(lacking.exitCode).toBe(1);
      expect(JSON.parse(lacking.stdout)).toMatchObject({ blobs: 1, lacking: [sha256("far away")] });
    }
    // Nothing can give it back; the reader gets an error, as for a file that is gone.
    const [, far] = await attached("backed up");
    expect((await api.get(far?.url.replace(/^.*\/api\/v1/, "") ?? "")).status).toBe(500);
  });

  test("erasing a person removes the files that only they had, in S3 and in the cache", async () => {
    const { terminal, deliver, s3, inCache } = await open();
    await deliver(withFiles("private", "of alice alone"));
    const name = sha256("of alice alone");
    expect(inCache()).toEqual([name]);
    await eraseAlice(terminal, s3);
    expect(await s3.direct.exists(keyOf(name))).toBe(false);
    expect(inCache()).toEqual([]);
  });

  test("large octets are a file like attachments: there before the 250, away with S3, moved, backed up, named and erased", async () => {
    const { deliver, count, api, s3, core, opened, inFiles, inCache, terminal, runtime, owner, ready, pass } =
      await open({
        MAILROOM_IMAPS: "127.0.0.1:0",
      });
    const text = randomBytes(60_000).toString("hex").replace(/.{76}/g, "$&\r\n");
    const message = letter({ subject: "long", text }).trimEnd().replaceAll(/\r?\n/g, "\r\n");
    expect((await deliver(message)).code).toBe(250);
    const nameOf = () => core.store.db.query.messageOctets.findFirst().sync()?.blob ?? "";
    const name = nameOf();
    expect(await s3.direct.exists(keyOf(name))).toBe(true);
    expect([inFiles(), inCache()]).toEqual([[], [name]]);

    const [{ id } = { id: "" }] = (await api.get<{ messages: { id: string }[] }>("/messages")).body.messages;
    const app = await imapAccount(
      Number(ready.imaps?.split(":")[1]),
      "alice@example.test",
      appPassword({ core, runtime, owner }),
    );
    await app.say("SELECT INBOX");
    const fetched = async (item = "BODY.PEEK[]") => {
      const { status, text, untagged } = await app.say(`FETCH 1 ${item}`);
      return `${status} ${text.split(" ")[0]} ${untagged.join("")}`;
    };
    /** The status of the original, which has the message below the fields of the server if it is 200. */
    const original = async (client = api) => {
      const { status, body } = await client.bytes(`/api/ext/v1/messages/${id}/original`);
      if (status === 200) expect(Buffer.from(body).toString().endsWith(`${message}\r\n`)).toBe(true);
      return status;
    };
    await core.store.remote?.cache.clear();
    expect(await original()).toBe(200);
    await core.store.remote?.cache.clear();
    s3.interfere(denied);
    expect(await original()).toBe(503);
    expect(await fetched()).toStartWith("NO [UNAVAILABLE]");
    expect(await fetched("(ENVELOPE BODYSTRUCTURE RFC822.SIZE)")).toStartWith("OK ");
    expect((await api.get(`/messages/${id}`)).status).toBe(200);
    const other = message
      .replace("Subject: long", "Subject: waits")
      .replace(/Message-ID: <[^>]*>/i, "Message-ID: <w@x>");
    expect(await deliver(other)).toMatchObject({ code: 452, status: "4.3.1" });
    expect((await deliver(letter({ subject: "short" }))).code).toBe(250);
    expect([await count("waits"), await count("short"), inCache()]).toEqual([0, 1, []]);
    s3.interfere(undefined);
    await pass(60_000);
    expect((await deliver(other)).code).toBe(250);
    expect(await original()).toBe(200);

    const folder = join(temporaryFolder(), "backup");
    await core.store.remote?.cache.clear();
    expect(await terminal.ask("backup", folder)).toMatchObject({ blobs: 2, copied: 2, lacking: [] });
    const restored = openTerminal({});
    await restored.ask("restore", folder);
    const elsewhere = await bootEmpty(
      { MAILROOM_DATA: restored.data },
      { file: join(restored.data, "mailroom.db"), now: runtime.now },
    );
    expect(await original(apiClient(elsewhere.http, owner.apiKey))).toBe(200);
    await elsewhere.server.stop(0);
    const copy = blobPath(join(folder, "blobs"), name);
    writeFileSync(copy, "other");
    const verified = await terminal.say("backup", "verify", folder, "--json");
    expect([verified.exitCode, verified.stdout]).toEqual([1, expect.stringContaining(blobPath("blobs", name))]);

    const bytes = await s3.direct.file(keyOf(name)).bytes();
    await s3.direct.write(keyOf(name), "other");
    await core.store.remote?.cache.clear();
    expect(await original()).toBe(500);
    expect(await fetched()).toStartWith("NO [SERVERBUG]");
    const look = () =>
      runDoctorChecks({ ...opened, ...core, system: operatingSystem, serving: true }, { bytes: checkBlobBytes });
    expect(await look()).toMatchObject([{ state: "bad", detail: expect.stringContaining(`damaged: ${name}`) }]);
    const mbox = join(temporaryFolder(), "alice.mbox");
    const exported = await terminal.say("export", "--mailbox", "alice@example.test", "--to", mbox, "--json");
    expect([exported.exitCode, JSON.parse(exported.stdout)]).toMatchObject([1, { messages: 2, lost: [id] }]);
    expect((await terminal.say("blobs", "move", "--to", "files")).exitCode).toBe(1);
    // Above a message that comes again are other lines: nothing but a copy mends its octets.
    expect((await deliver(message)).code).toBe(250);
    expect(await original()).toBe(500);
    await s3.direct.write(keyOf(name), bytes);
    expect(await original()).toBe(200);
    expect(await look()).toMatchObject([{ state: "ok" }]);
    await terminal.ask("blobs", "move", "--to", "files");
    expect(inFiles()).toContain(name);
    s3.interfere(denied);
    await core.store.remote?.cache.clear();
    expect(await original()).toBe(200);
    // The server keeps the large messages that were fetched last.
    expect((await fetched()).includes(message)).toBe(true);
    app.end();
    s3.interfere(undefined);
    await terminal.ask("blobs", "move", "--to", "s3");

    await eraseAlice(terminal, s3);
    expect(await s3.direct.exists(keyOf(name))).toBe(false);
    expect([inFiles(), inCache()]).toEqual([[], []]);
  }, 120_000);

  test("mail is imported and exported with attachments in S3", async () => {
    const { terminal, s3, core, deliver } = await open();
    await deliver(withFiles("exported", "taken along"));
    await core.store.remote?.cache.clear();
    const mbox = join(temporaryFolder(), "alice.mbox");
    await terminal.ask("export", "--mailbox", "alice@example.test", "--to", mbox);
    expect(readFileSync(mbox, "utf8")).toContain(Buffer.from("taken along").toString("base64"));
    const other = openTerminal({
      env: { MAILROOM_BLOBS: s3.url.replace("/team", "/other"), ...s3.credentials },
      interrupted: new Promise(() => {}),
    });
    await other.ask(...SETUP);
    expect(await other.ask("import", "--mailbox", "ada@acme.test", mbox)).toMatchObject({ imported: 1 });
    expect(await s3.direct.file(keyOf(sha256("taken along")).replace("team/", "other/")).text()).toBe("taken along");
    expect(filesIn(join(other.data, "blobs"))).toEqual([]);
  });
});
