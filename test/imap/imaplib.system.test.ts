/** Python's imaplib, over implicit TLS. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { boot } from "../harness/servers/boot.ts";
import { arrive } from "./arrive.ts";

const python = Bun.which("python3");
const app = python ? await boot({ MAILROOM_IMAPS: "127.0.0.1:0" }) : undefined;
afterAll(() => app?.server.stop(0));

const SCRIPT = `
import imaplib, ssl, sys
context = ssl._create_unverified_context()
m = imaplib.IMAP4_SSL("127.0.0.1", int(sys.argv[1]), ssl_context=context)
m.login("alice@example.test", sys.argv[2])
def ok(answer):
    assert answer[0] == "OK", answer
    return answer[1]
message = b"From: Ben <ben@remote.example>\\r\\nTo: alice@example.test\\r\\nSubject: From Python\\r\\nMessage-ID: <py@x>\\r\\n\\r\\nHi\\r\\n"
ok(m.append("INBOX", "(\\\\Seen)", None, message))
assert ok(m.select("INBOX")) == [b"1"]
assert ok(m.uid("SEARCH", None, "SUBJECT", "python")) == [b"1"]
parts = ok(m.fetch("1", "(FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)] BODY.PEEK[TEXT])"))
assert parts[0][1] == b"Subject: From Python\\r\\n\\r\\n", parts
assert parts[1][1] == b"Hi\\r\\n", parts
ok(m.store("1", "+FLAGS", "(\\\\Deleted)"))
ok(m.expunge())
assert ok(m.select("Trash")) == [b"1"]
ok(m.list())
m.logout()
print("done")
`;

test.skipIf(!python)("imaplib appends, searches, fetches, deletes", async () => {
  const port = app?.ready.imaps?.split(":")[1] ?? "";
  const child = Bun.spawn(["python3", "-c", SCRIPT, port, app?.owner.apiKey ?? ""], { stdout: "pipe", stderr: "pipe" });
  const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect([errors, out]).toEqual(["", "done\n"]);
});

test.skipIf(!python)("the program of docs/mail-apps.md reads what is unread", async () => {
  const page = await Bun.file(join(import.meta.dir, "../../docs/mail-apps.md")).text();
  const [, program = ""] = /```python\n([\s\S]*?)```/.exec(page) ?? [];
  const port = app?.ready.imaps?.split(":")[1] ?? "";
  if (app) await arrive(app, { subject: "Waiting" });
  const here = program
    .replace('"mail.example.com"', `"127.0.0.1", ${port}, ssl_context=__import__("ssl")._create_unverified_context()`)
    .replace("you@example.com", "alice@example.test");
  const env = { ...process.env, PASSWORD: app?.owner.apiKey ?? "" };
  const child = Bun.spawn(["python3", "-c", here], { env, stdout: "pipe", stderr: "pipe" });
  const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect([errors, out]).toEqual(["", "From: Carol <carol@remote.example>\r\nSubject: Waiting\r\n\r\n\n"]);
});
