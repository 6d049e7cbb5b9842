/** A mail app sends with an app password. */
import { expect, test } from "bun:test";
import * as people from "../../../src/admin/people.ts";
import { setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { installed, run } from "../../harness/programs.ts";
import { boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";

const swaks = installed("swaks");
test.skipIf(swaks.absent)(
  `a mail app sends with one: ${swaks.named}`,
  async () => {
    const booted = await boot();
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId, userId } = booted.owner;
    const bobs = store.transact((tx) =>
      people.addUser(core, tx, { workspaceId, email: BOB, name: "Bob", role: "member", ownMailbox: true }),
    );
    for (const id of [userId, bobs.userId]) await setPassword(booted, id);
    const [alice, bob] = [await signIn(booted, ALICE), await signIn(booted, BOB)];
    const { password } = (await alice.send<{ password: string }>("POST", "/app-passwords", { name: "Phone" })).body;
    const send = (...tls: string[]) =>
      run([
        swaks.path,
        "--server",
        "127.0.0.1",
        "--from",
        ALICE,
        "--to",
        BOB,
        "--body",
        "from swaks",
        "--auth-user",
        ALICE,
        "--auth-password",
        password,
        ...tls,
      ]);
    const ports = [booted.submission.port, booted.submissions.port].map(String) as [string, string];
    for (const tls of [
      ["--port", ports[0], "--tls", "--auth", "PLAIN"],
      ["--port", ports[1], "--tls-on-connect", "--auth", "LOGIN"],
    ]) {
      expect(await send(...tls)).toMatchObject({
        exitCode: 0,
        output: expect.stringContaining("accepted for delivery"),
      });
    }
    await booted.server.settled();
    expect((await bob.get<{ threads: object[] }>("/threads")).body.threads).not.toEqual([]);
  },
  120_000,
);
