/** Children that exchange messages, and what one that a message has taken over can do to the server: end. */
import { expect, test } from "bun:test";
import { encodeChildMessage } from "../../src/base/child-messages.ts";
import { type MessagingChild, startMessagingChild } from "../../src/base/child-process.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { until } from "../harness/until.ts";

const MB = 1024 * 1024;

/** Runs a script of the shell. Resolves with what it said, and how it ended. */
async function runScript(script: string, use: (child: MessagingChild) => void = () => {}) {
  const heard: unknown[] = [];
  const how = await new Promise<string>((resolve) => {
    use(
      startMessagingChild("script", ["/bin/sh", "-c", script], { heard: (said) => heard.push(said), ended: resolve }),
    );
  });
  return { heard, how };
}

/** A command of the shell that writes a message. */
const say = (value: unknown): string =>
  `printf '${[...encodeChildMessage(value)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")}' >&3`;

test("a message that is longer than it may be ends its child before it is taken in", async () => {
  const before = process.memoryUsage.rss();
  const endless = "exec cat /dev/zero >&3";
  const said = await runScript(`${say({ ready: true })}; printf '\\377\\377\\377\\177' >&3; ${endless}`);
  // What it goes on to say may meet a closed pipe before it is killed.
  expect(said).toEqual({
    heard: [{ ready: true }],
    how: expect.stringMatching(/^SIG(?:KILL|PIPE) it says too much at once$/),
  });
  // Zeros are the length of an empty message.
  expect((await runScript(endless)).how).toMatch(/^SIG(?:KILL|PIPE) it is no message$/);
  expect(process.memoryUsage.rss() - before).toBeLessThan(64 * MB);
}, 60_000);

test("endless output to standard error ends its child, and standard output leads nowhere", async () => {
  const { heard, how } = await runScript("head -c 10000000 /dev/zero; exec cat /dev/zero >&2");
  expect(heard).toEqual([]);
  expect(how).toMatch(/^SIG(?:KILL|PIPE) it wrote too much to its standard error$/);
}, 60_000);

test("the last words of a child that has read mail name places in the code, and nothing else", async () => {
  const words = `printf 'SyntaxError: Subject: \\033[2Jsecret\\n    at read (main.js:1:2)\\n    at \\033[2J\\n' >&2; exit 3`;
  expect((await runScript(`${say({ ready: true })}; sleep 0.1; ${words}`)).how).toBe("exit 3 at read (main.js:1:2)");
  expect((await runScript(words)).how).toBe("exit 3 SyntaxError: Subject: [2Jsecret at read (main.js:1:2) at [2J");
}, 60_000);

test("a child hears what it is told, has no descriptor of another child, and ends when it is killed", async () => {
  const list = 'ls /proc/self/fd | tr "\\n" " " >&2';
  const first = runScript("cat >/dev/null", (child) => {
    child.send({ text: "x".repeat(1_000_000) });
    void runScript(list).then(({ how }) => {
      open = how;
      child.kill();
    });
  });
  let open = "";
  expect((await first).how).toBe("SIGKILL");
  // Of ls itself: the four that it was given, and the folder that it reads.
  expect(open).toBe("exit 0 0 1 2 3 4");
}, 60_000);

test("the time of processors is what a child works, whatever its name, and not what it waits", async () => {
  // The name of the program, as the system tells it, has brackets and blanks.
  const as = (name: string, script: string) => `cp /bin/sh "$PWD/${name}" && exec "$PWD/${name}" -c '${script}'`;
  const folder = temporaryFolder();
  const begin = (script: string) => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const child = startMessagingChild("script", ["/bin/sh", "-c", `cd ${folder} && ${script}`], {
      heard() {},
      ended: resolve,
    });
    return { child, ended: promise };
  };
  const busy = begin(as("a) R 1 (b", "while :; do :; done"));
  const asleep = begin("exec sleep 600");
  // The system counts in hundredths of a second.
  await until(() => (busy.child.processorTime() ?? 0) >= 500);
  expect(asleep.child.processorTime()).toBeLessThan(250);
  for (const { child, ended } of [busy, asleep]) {
    child.kill();
    await ended;
    expect(child.processorTime()).toBeUndefined();
  }
}, 120_000);
