/** Clients that generators make of the OpenAPI documents of a running server. Their programs are in test/api/clients/. */
import { expect } from "bun:test";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { bootExamples, type ExampleWorld, PDF } from "../harness/servers/examples.ts";

/** Paths of the documents, by the names that their clients get. The programs use the first two. */
export const DOCUMENTS: Record<string, string> = {
  mail: "/api/v1/openapi.json",
  admin: "/api/admin/v1/openapi.json",
  ext: "/api/ext/v1/openapi.json",
};

export interface ClientRig {
  /** A new folder, with `NAME.json` for each document. */
  folder: string;
  /** Runs a command in the folder. Resolves with its output, or rejects with the end of it if the command fails. */
  run(command: readonly string[]): Promise<string>;
  /** Copies a program of test/api/clients/ into the folder. */
  copy(program: string, to: string): void;
  /** Runs the program of a client, and checks what it did. */
  use(command: readonly string[]): Promise<void>;
}

export async function clientRig(): Promise<ClientRig> {
  const world = await bootExamples();
  const folder = temporaryFolder();
  for (const [name, path] of Object.entries(DOCUMENTS)) {
    await Bun.write(join(folder, `${name}.json`), await fetch(world.http + path));
  }
  const env = { ...process.env, MAILROOM_URL: world.http, MAILROOM_KEY: world.key };

  const run: ClientRig["run"] = async (command) => {
    const child = Bun.spawn([...command], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const output = stdout + stderr;
    if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}\n${output.slice(-4000)}`);
    return output;
  };

  return {
    folder,
    run,
    copy: (program, to) => cpSync(join(import.meta.dir, "clients", program), join(folder, to)),
    async use(command) {
      await run(command);
      await expectDone(world);
    },
  };
}

interface Detail {
  thread: { labels: string[] };
  messages: { attachments: { id: string; filename: string }[] }[];
}

/** Checks that a program labelled the conversation, and sent the attachment in base64 and as a file. */
async function expectDone({ apiWith, key }: ExampleWorld): Promise<void> {
  const api = apiWith(key);
  const [labelled] = (await api.get<{ threads: { labels: string[] }[] }>("/threads")).body.threads;
  expect(labelled?.labels).toEqual(["Generated"]);
  const { threads } = (await api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=sent")).body;
  expect(threads.map(({ subject }) => subject).sort()).toEqual(["base64", "form"]);
  for (const { id } of threads) {
    const { messages } = (await api.get<Detail>(`/threads/${id}`)).body;
    const [attachment] = messages[0]?.attachments ?? [];
    expect(attachment?.filename).toBe("copy.pdf");
    expect(Buffer.from((await api.bytes(`/attachments/${attachment?.id}`)).body)).toEqual(PDF);
  }
}
