/**
 * Thunderbird without a window, driven by the protocol by which browsers are tested (Marionette): scripts run in the
 * program itself, with its own modules.
 */
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "./folder.ts";
import { takePort } from "./port.ts";
import { installed } from "./programs.ts";
import { until } from "./until.ts";

export const thunderbird = installed("thunderbird");

/** Longest that a script runs, ms. */
const SCRIPT_MS = 60_000;

export interface Thunderbird {
  /** Runs the body of an async function, with `args`, and gives what it returns. Rejects with what it throws. */
  run(body: string, ...args: unknown[]): Promise<unknown>;
  stop(): Promise<void>;
}

export async function startThunderbird(): Promise<Thunderbird> {
  const home = temporaryFolder();
  const port = await takePort();
  const preferences = {
    "marionette.port": port,
    "app.update.enabled": false,
    "datareporting.policy.dataSubmissionEnabled": false,
    "mailnews.start_page.enabled": false,
    "mail.provider.suppress_dialog_on_startup": true,
  };
  const lines = Object.entries(preferences).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});\n`);
  writeFileSync(join(home, "user.js"), lines.join(""));
  const program = Bun.spawn(
    [
      ...[thunderbird.path, "--headless", "--no-remote", "--marionette", "-remote-allow-system-access"],
      ...["--profile", home],
    ],
    { env: { ...process.env, HOME: home }, stdin: "ignore", stdout: "ignore", stderr: "ignore" },
  );
  let received = Buffer.alloc(0);
  const waiting: ((message: unknown) => void)[] = [];
  const reach = () =>
    new Promise<Socket | undefined>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket));
      socket.once("error", () => resolve(undefined));
    });
  let found: Socket | undefined;
  await until(async () => {
    found = await reach();
    return found;
  });
  const socket = found as unknown as Socket;
  /** Each message is JSON after its length and a colon. */
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (;;) {
      const colon = received.indexOf(":");
      const end = colon + 1 + Number(received.subarray(0, Math.max(0, colon)).toString());
      if (colon < 0 || received.length < end) return;
      const message = JSON.parse(received.subarray(colon + 1, end).toString());
      received = received.subarray(end);
      waiting.shift()?.(message);
    }
  });
  const next = () => new Promise<unknown>((resolve) => waiting.push(resolve));
  let id = 0;
  async function command(name: string, parameters: object): Promise<{ value?: unknown }> {
    const text = JSON.stringify([0, ++id, name, parameters]);
    socket.write(`${Buffer.byteLength(text)}:${text}`);
    const [, , error, result] = (await next()) as [number, number, { message: string } | null, { value?: unknown }];
    if (error) throw new Error(error.message);
    return result;
  }
  await next();
  await command("WebDriver:NewSession", { capabilities: {} });
  await command("Marionette:SetContext", { value: "chrome" });
  await command("WebDriver:SetTimeouts", { script: SCRIPT_MS });
  return {
    async run(body, ...args) {
      const script = `const done = arguments[arguments.length - 1];
        (async (...args) => { ${body} })(...arguments).then((value) => done({ value }), (error) => done({ error: String(error) }));`;
      const { value } = await command("WebDriver:ExecuteAsyncScript", { script, args, newSandbox: false });
      const { value: returned, error } = value as { value?: unknown; error?: string };
      if (error !== undefined) throw new Error(error);
      return returned;
    },
    async stop() {
      socket.destroy();
      program.kill();
      await program.exited;
    },
  };
}
