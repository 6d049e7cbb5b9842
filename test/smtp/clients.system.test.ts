/** swaks against the whole way from socket to mailbox. */
import { describe, expect, test } from "bun:test";
import { listenForMailbox } from "../harness/servers/mx-rig.ts";

const swaks = Bun.which("swaks");

describe.skipIf(!swaks)(`swaks${swaks ? "" : " (not installed)"}`, () => {
  async function run(port: number, ...args: string[]): Promise<{ exitCode: number; output: string }> {
    const child = Bun.spawn([swaks as string, "--server", "127.0.0.1", "--port", String(port), ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    return { output: await new Response(child.stdout).text(), exitCode: await child.exited };
  }

  test.each([[], ["--tls"], ["--pipeline"], ["--protocol", "SMTP"]])("%p", async (...args) => {
    const { address, filed } = await listenForMailbox();
    const from = ["--from", "swaks@remote.example", "--to", "alice@example.test,bob@example.test"];
    const { exitCode, output } = await run(address.port, ...from, ...args, "--body", "from swaks");
    expect({ exitCode, output }).toMatchObject({ exitCode: 0, output: expect.stringContaining("250 2.6.0 msg_") });
    expect(filed().map(({ text }) => text.trim())).toEqual(["from swaks", "from swaks"]);
  });

  test("sees a refusal", async () => {
    const { address } = await listenForMailbox();
    const { exitCode, output } = await run(address.port, "--from", "s@remote.example", "--to", "who@elsewhere.example");
    expect({ exitCode, output }).toMatchObject({ exitCode: 24, output: expect.stringContaining("550 5.7.1") });
  });
});
