/**
 * Signing in to the submission listener (RFC 4954; rules: Sign-in failures), and the rights of a session before and after it.
 */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { verifyPassword } from "../../src/access/credentials.ts";
import { users } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { holdPasswords } from "../harness/quick-hash.ts";
import { START } from "../harness/runtime.ts";
import {
  authPlain,
  base64,
  brief,
  listenForSubmission,
  PASSWORD,
  type SubmissionRig,
} from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const MESSAGE = "From: alice@example.test\r\nTo: x@remote.example\r\nSubject: hello\r\n\r\nHow are you?";

describe("before TLS", () => {
  test("STARTTLS is offered and AUTH is not; afterwards the other way round", async () => {
    const { address } = await listenForSubmission();
    const client = await connectSmtp(address, { ehlo: false });
    const plain = await client.expect(250, "EHLO client.example");
    const always = [
      "8BITMIME",
      "CHUNKING",
      "DSN",
      "ENHANCEDSTATUSCODES",
      "LIMITS RCPTMAX=100",
      "PIPELINING",
      "SIZE 26214400",
      "SMTPUTF8",
    ];
    expect(plain.lines.slice(1).sort()).toEqual([...always, "STARTTLS"].sort());
    await client.expect(220, "STARTTLS");
    await client.secure();
    const secure = await client.expect(250, "EHLO client.example");
    expect(secure.lines.slice(1).sort()).toEqual([...always, "AUTH PLAIN LOGIN"].sort());
    client.destroy();
  });

  test.each([
    `AUTH PLAIN ${base64(`\0alice@example.test\0${PASSWORD}`)}`,
    "AUTH LOGIN",
    "MAIL FROM:<alice@example.test>",
    "RCPT TO:<x@remote.example>",
    "DATA",
  ])("%s is refused", async (line) => {
    const { address } = await listenForSubmission();
    const client = await connectSmtp(address);
    const reply = await client.command(line);
    expect(brief(reply)).toBe("530 5.7.0");
    expect(reply.lines.join()).toContain("STARTTLS");
    await client.expect(250, "NOOP");
    client.destroy();
  });

  test("plain text after STARTTLS signs no one in and begins no message", async () => {
    const { address, submitted } = await listenForSubmission();
    const client = await connectSmtp(address);
    const auth = `AUTH PLAIN ${base64(`\0alice@example.test\0${PASSWORD}`)}`;
    client.write(`STARTTLS\r\nEHLO injected.example\r\n${auth}\r\nMAIL FROM:<alice@example.test>\r\nAUTH LOGIN\r\n`);
    expect((await client.reply()).code).toBe(220);
    await client.secure();
    expect(brief(await client.command("MAIL FROM:<alice@example.test>"))).toBe("503 5.5.1");
    await client.expect(250, "EHLO client.example");
    expect(brief(await client.command("MAIL FROM:<alice@example.test>"))).toBe("530 5.7.0");
    expect(submitted).toEqual([]);
    client.destroy();
  });
});

describe("AUTH", () => {
  const PLAIN = base64(`\0alice@example.test\0${PASSWORD}`);
  const LOGIN = [base64("alice@example.test"), base64(PASSWORD)];
  test.each<[lines: string[], replies: string[]]>([
    [[`AUTH PLAIN ${PLAIN}`], ["235 2.7.0"]],
    [[`auth plain ${PLAIN}`], ["235 2.7.0"]],
    [
      ["AUTH PLAIN", PLAIN],
      ["334", "235 2.7.0"],
    ],
    [
      ["AUTH LOGIN", ...LOGIN],
      ["334", "334", "235 2.7.0"],
    ],
    [
      [`AUTH LOGIN ${LOGIN[0]}`, LOGIN[1] as string],
      ["334", "235 2.7.0"],
    ],
    [[`AUTH PLAIN ${base64(`alice@example.test\0alice@example.test\0${PASSWORD}`)}`], ["235 2.7.0"]],
    [[`AUTH PLAIN ${base64(`\0ALICE@Example.TEST\0${PASSWORD}`)}`], ["235 2.7.0"]],
    [[`AUTH PLAIN ${base64(`bob@example.test\0alice@example.test\0${PASSWORD}`)}`], ["535 5.7.8"]],
    [
      ["AUTH PLAIN", "*"],
      ["334", "501 5.5.4"],
    ],
    [
      ["AUTH LOGIN", "*"],
      ["334", "501 5.5.4"],
    ],
    [
      ["AUTH LOGIN", LOGIN[0] as string, "*"],
      ["334", "334", "501 5.5.4"],
    ],
    [[`AUTH PLAIN ${base64("alice@example.test")}`], ["501 5.5.4"]],
    [["AUTH CRAM-MD5"], ["504 5.5.4"]],
    [[`AUTH XOAUTH2 ${PLAIN}`], ["504 5.5.4"]],
    [["AUTH"], ["504 5.5.4"]],
  ])("%j", async (lines, replies) => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    const got: string[] = [];
    for (const line of lines) got.push(brief(await client.command(line)));
    expect(got).toEqual(replies);
    const signedIn = replies.at(-1)?.startsWith("235");
    expect(brief(await client.command("MAIL FROM:<alice@example.test>"))).toBe(signedIn ? "250 2.1.0" : "530 5.7.0");
    if (signedIn) expect(brief(await client.command(`AUTH PLAIN ${PLAIN}`))).toBe("503 5.5.1");
    client.destroy();
  });

  test("HELO or EHLO comes first, also after TLS", async () => {
    const { address } = await listenForSubmission();
    const client = await connectSmtp(address);
    await client.expect(220, "STARTTLS");
    await client.secure();
    expect(brief(await authPlain(client, "alice@example.test", PASSWORD))).toBe("503 5.5.1");
    client.destroy();
  });

  type Attempt = (rig: SubmissionRig) => [username: string, secret: string];
  const good: [string, Attempt][] = [
    ["a password", () => ["alice@example.test", PASSWORD]],
    ["a key with the scope send", (rig) => ["alice@example.test", rig.keyOf(rig.alice)]],
    ["a key with all scopes", (rig) => ["bob@example.test", rig.keyOf(rig.bob, ["read", "send", "write"])]],
    ["a key of somebody without a password", (rig) => ["carol@example.test", rig.keyOf(rig.carol)]],
  ];
  test.concurrent.each(good)("%s is accepted", async (_, attempt) => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    const [username, secret] = attempt(rig);
    expect(brief(await authPlain(client, username, secret))).toBe("235 2.7.0");
    client.destroy();
  });

  const bad: [string, Attempt][] = [
    ["nobody", () => ["nobody@example.test", PASSWORD]],
    ["a wrong password", () => ["alice@example.test", "correct horse"]],
    ["no password", () => ["alice@example.test", ""]],
    ["the password of somebody without one", () => ["carol@example.test", ""]],
    ["an alias for the person", () => ["sales@example.test", PASSWORD]],
    ["a mailbox of nobody", () => ["shared@example.test", PASSWORD]],
    ["no address", () => ["alice", PASSWORD]],
    ["a key that does not exist", () => ["alice@example.test", `mr_${"x".repeat(43)}`]],
    ["a key of somebody else", (rig) => ["alice@example.test", rig.keyOf(rig.bob)]],
    ["a key without the scope", (rig) => ["alice@example.test", rig.keyOf(rig.alice, ["read", "write"])]],
    [
      "a revoked key",
      (rig) => {
        const key = rig.keyOf(rig.alice);
        rig.revoke(key);
        return ["alice@example.test", key];
      },
    ],
  ];
  test.concurrent.each(bad)("%s is refused in the same words", async (_, attempt) => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    const [username, secret] = attempt(rig);
    expect(await authPlain(client, username, secret)).toEqual({
      code: 535,
      status: "5.7.8",
      lines: ["5.7.8 Address or password is wrong"],
    });
    expect(brief(await client.command("MAIL FROM:<>"))).toBe("530 5.7.0");
    const logged = JSON.stringify(rig.lines);
    expect(logged).toContain("sign-in failed");
    if (secret !== "") expect(logged).not.toContain(secret);
    client.destroy();
  });

  test("is put off while too many passwords are being checked, but not one by key", async () => {
    const rig = await listenForSubmission();
    const hold = holdPasswords();
    const others = Array.from({ length: 64 }, () => verifyPassword(PASSWORD, null));
    const client = await rig.connect();
    const reply = await authPlain(client, "alice@example.test", PASSWORD);
    expect([brief(reply), reply.lines[0]]).toEqual(["454 4.7.0", expect.stringContaining("Too many passwords")]);
    expect((await authPlain(client, "alice@example.test", rig.keyOf(rig.alice))).code).toBe(235);
    hold.release();
    await Promise.all(others);
    client.destroy();
  });

  test("pipelined commands wait for it", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    client.write(
      `AUTH PLAIN ${base64(`\0alice@example.test\0${PASSWORD}`)}\r\nMAIL FROM:<alice@example.test>\r\n` +
        `RCPT TO:<x@remote.example>\r\nDATA\r\n${MESSAGE}\r\n.\r\nQUIT\r\n`,
    );
    const codes: number[] = [];
    for (let i = 0; i < 6; i++) codes.push((await client.reply()).code);
    expect(codes).toEqual([235, 250, 250, 354, 250, 221]);
    expect(rig.submitted).toHaveLength(1);
  });

  test("a failed sign-in pipelined before mail lets no mail in", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    client.write(
      `AUTH PLAIN ${base64("\0alice@example.test\0wrong")}\r\nMAIL FROM:<alice@example.test>\r\n` +
        "RCPT TO:<x@remote.example>\r\nDATA\r\nNOOP\r\n",
    );
    const codes: number[] = [];
    for (let i = 0; i < 5; i++) codes.push((await client.reply()).code);
    expect(codes).toEqual([535, 530, 530, 530, 250]);
    client.destroy();
  });
});

describe("access that ends", () => {
  const endings: [string, (rig: SubmissionRig, key: string) => unknown][] = [
    ["a revoked key", (rig, key) => rig.revoke(key)],
    ["a person who left", (rig) => rig.world.store.db.delete(users).where(eq(users.id, rig.alice.userId)).run()],
    [
      "a person who has another address",
      (rig) =>
        rig.world.store.db.update(users).set({ email: "al@example.test" }).where(eq(users.id, rig.alice.userId)).run(),
    ],
  ];
  test.concurrent.each(endings)("ends the session at MAIL: %s", async (_, end) => {
    const rig = await listenForSubmission();
    const key = rig.keyOf(rig.alice);
    const client = await rig.connectAs(rig.alice, key);
    expect((await client.deliver({ from: "alice@example.test", to: "x@remote.example" }, MESSAGE)).code).toBe(250);
    await end(rig, key);
    expect(brief(await client.command("MAIL FROM:<alice@example.test>"))).toBe("421 4.7.0");
    await client.closed;
  });

  test("a changed password ends the sessions of the old one", async () => {
    const rig = await listenForSubmission();
    const [byPassword, byKey] = [await rig.connectAs(rig.alice, PASSWORD), await rig.connectAs(rig.alice)];
    await rig.setPassword(rig.alice, "another one");
    expect(brief(await byPassword.command("MAIL FROM:<alice@example.test>"))).toBe("421 4.7.0");
    expect(brief(await byKey.command("MAIL FROM:<alice@example.test>"))).toBe("250 2.1.0");
    byKey.destroy();
  });

  test("also during a message", async () => {
    const rig = await listenForSubmission();
    const key = rig.keyOf(rig.alice);
    const client = await rig.connectAs(rig.alice, key);
    await client.expect(250, "MAIL FROM:<alice@example.test>");
    await client.expect(250, "RCPT TO:<x@remote.example>");
    await client.expect(354, "DATA");
    rig.revoke(key);
    expect(brief(await client.command(`${MESSAGE}\r\n.`))).toBe("421 4.7.0");
    await client.closed;
    expect(rig.submitted).toEqual([]);
  });

  test("a changed role counts at once", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.alice);
    await client.expect(250, "MAIL FROM:<bob@example.test>");
    await client.expect(250, "RSET");
    rig.world.store.db.update(users).set({ role: "member" }).where(eq(users.id, rig.alice.userId)).run();
    expect(brief(await client.command("MAIL FROM:<bob@example.test>"))).toBe("553 5.7.1");
    client.destroy();
  });
});

describe("limits before signing in", () => {
  test("the sixth refusal ends the session", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connect();
    for (let i = 0; i < 5; i++) expect(brief(await authPlain(client, "bob@example.test", "x"))).toBe("535 5.7.8");
    expect(brief(await authPlain(client, "bob@example.test", "x"))).toBe("535 5.7.8");
    expect(brief(await client.reply())).toBe("421 4.7.0");
    await client.closed;
  });

  test("unproductive commands end the session too, but not after signing in", async () => {
    const rig = await listenForSubmission();
    const [anonymous, alice] = [await rig.connect(), await rig.connectAs(rig.alice)];
    let count = 0;
    while (brief(await anonymous.command("NOOP")) === "250 2.0.0") count++;
    await anonymous.closed;
    expect(count).toBeLessThan(30);
    for (let i = 0; i < 100; i++) await alice.expect(250, "NOOP");
    alice.destroy();
  });

  test("a command may take a minute, and five once signed in", async () => {
    const rig = await listenForSubmission();
    const alice = await rig.connectAs(rig.alice);
    const anonymous = await rig.connect();
    rig.runtime.advanceTo(START + 60_000);
    expect(brief(await anonymous.reply())).toBe("421 4.4.2");
    await alice.expect(250, "NOOP");
    rig.runtime.advanceTo(START + 6 * 60_000);
    expect(brief(await alice.reply())).toBe("421 4.4.2");
  });
});

describe("guessing", () => {
  test("waits longer for each reply, on new connections too; the right password does not wait", async () => {
    const rig = await listenForSubmission();
    for (let i = 0; i < 4; i++) {
      const client = await rig.connect();
      for (let j = 0; j < 5; j++) expect((await authPlain(client, "alice@example.test", `${i}${j}`)).code).toBe(535);
      client.destroy();
    }
    const client = await rig.connect();
    const reply = authPlain(client, "alice@example.test", "the 21st");
    const delayed = await timerWithin(rig, 2_000);
    expect(delayed - rig.runtime.now()).toBe(100);
    const alice = await rig.connectAs(rig.alice, PASSWORD);
    alice.destroy();
    rig.runtime.advanceTo(delayed);
    expect((await reply).code).toBe(535);

    const interrupted = authPlain(client, "alice@example.test", "the 22nd");
    await timerWithin(rig, 2_000);
    await rig.listener.stop(10_000);
    expect(brief(await interrupted)).toBe("421 4.3.2");
    await client.closed;
  }, 300_000);
});

/** Waits for the first timer of at most `ms`: that of a delayed reply, not of a session. */
async function timerWithin({ runtime }: SubmissionRig, ms: number): Promise<number> {
  let at = Number.POSITIVE_INFINITY;
  await until(() => {
    at = runtime.nextTimer() ?? Number.POSITIVE_INFINITY;
    return at - runtime.now() <= ms;
  });
  return at;
}
