/** `npm run build` makes one executable that runs from any folder with no file beside it. */
import { expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { appScripts } from "../harness/clients/app-scripts.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letterWith } from "../harness/mail/documents.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { buildExecutable, builtExecutable } from "../harness/servers/executable.ts";
import { type Place, runJson, serve } from "../harness/servers/process.ts";

test("the executable stands alone: it sets up, serves, takes mail and gives it out", async () => {
  const folder = temporaryFolder();
  const executable = builtExecutable ?? (await buildExecutable(join(temporaryFolder(), "mailroom")));
  copyFileSync(executable, join(folder, "mailroom"));
  // What lies about where somebody stands is nobody's word to the program.
  writeFileSync(join(folder, ".env"), "MAILROOM_LOG=nonsense\n");
  writeFileSync(join(folder, "bunfig.toml"), 'preload = ["./lies-about.ts"]\n');
  writeFileSync(join(folder, "lies-about.ts"), "process.exit(9);\n");
  const before = readdirSync(folder);
  const place: Place = { data: join(folder, "data"), cwd: folder, program: [join(folder, "mailroom")] };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    "alice@example.test",
    "--name",
    "Alice",
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");

  const server = await serve(place);
  const sender = mailer(server.mx);
  await sender.send(
    { from: "carol@remote.example", to: "alice@example.test" },
    letter({ subject: "To the executable" }),
  );
  const files = ["bill.pdf", "cjk.pdf", "offer.docx", "sums.xlsx", "plans.pptx"];
  const attached = files.map((name): [string, string, Uint8Array] => [
    name,
    "application/octet-stream",
    readFileSync(join(import.meta.dir, "../documents/files", name)),
  ]);
  const invitation = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Lunch\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
  await sender.send(
    { from: "carol@remote.example", to: "alice@example.test" },
    letterWith("alice@example.test", [
      ...attached,
      ["letter.rtf", "text/rtf", Buffer.from("{\\rtf1 A letter}")],
      ["invite.ics", "text/calendar", Buffer.from(invitation)],
    ]),
  );
  sender.close();
  const { status, body } = await apiClient(server.http, apiKey).get<{ threads: { subject: string }[] }>("/threads");
  expect(status).toBe(200);
  expect(body.threads.map((thread) => thread.subject)).toEqual(["Documents", "To the executable"]);
  // rules: Rate headers; what bundling does to the code must not take them away.
  const headers = { Authorization: `Bearer ${apiKey}` };
  for (const [path, limit] of [
    ["/api/v1/mailboxes", "120"],
    ["/api/v1/openapi.json", "60"],
    ["/api/v1/attachments/none", "120"],
    ["/api/mcp", "120"],
    ["/api/none", "120"],
  ] as const) {
    const answer = await fetch(server.http + path, { headers });
    expect([path, answer.headers.get("x-ratelimit-limit")]).toEqual([path, limit]);
    expect([path, answer.headers.get("x-ratelimit-remaining")]).toEqual([path, expect.stringMatching(/^\d+$/)]);
    const cached = path.endsWith("openapi.json") ? "no-cache" : "private, no-store";
    expect([path, answer.headers.get("cache-control")]).toEqual([path, cached]);
  }
  // The workers, and what they load when it is needed, are inside.
  const mcp = await connectMcp(server.http, apiKey);
  const { structured } = await mcp.call("list_messages", { direction: "inbound", limit: 1 });
  const message = await mcp.call("get_message", { id: structured.messages[0].id, list: "attachments" });
  const texts: string[] = [];
  for (const { id } of message.structured.attachments) {
    texts.push((await mcp.call("get_attachment", { id })).structured.text);
  }
  await mcp.close();
  for (const words of [
    "Apples\t3",
    "日本語の文書",
    "cell 00\tcell 01",
    "May\t17.3",
    "# Slide 1: Plans",
    "A letter",
    "# Event: Lunch",
  ]) {
    expect([words, texts.filter((text) => text.includes(words)).length]).toEqual([words, 1]);
  }
  const { first, later } = await appScripts(server.http);
  expect([first.length > 0, later.length > 0]).toEqual([true, true]);
  expect(await server.kill("SIGTERM")).toBe(0);
  expect(readdirSync(folder).sort()).toEqual([...before, "data"].sort());
}, 300_000);
