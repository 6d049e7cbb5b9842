/** The API reference (rules: Web): its examples in curl and Python work. */
import { beforeAll, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { type Booted, boot } from "../harness/appliance.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail.ts";

let booted: Booted;
let html: string;
beforeAll(async () => {
  booted = await boot();
  html = await (await get("/api/docs")).text();
}, 120_000);

const get = (path: string, init: RequestInit = {}) => fetch(booted.http + path, init);
const textOf = (part: string): string =>
  part.replace(/<[^>]*>/g, "").replace(/&(amp|lt|gt|quot|#x27);/g, (_, name: string) => ENTITIES[name] ?? "");
/** Finds a piece of code of a section by its title. */
function codeOf(section: string, title: string): string {
  const [, rest = ""] = html.split(`<section id="${section}"`);
  const [, code = ""] = (rest.split("</section>")[0] ?? "").split(`<figcaption>${title}</figcaption><pre><code>`);
  return textOf(code.split("</code>")[0] ?? "");
}
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

const PYTHON = Bun.which("python3");

test.skipIf(!PYTHON)(
  `the reference's check of a signature works${PYTHON ? "" : " (skipped: no python3)"}`,
  async () => {
    const seconds = Math.floor(Date.now() / 1000);
    const sign = (t: number, secret: string) =>
      `t=${t},v1=${createHmac("sha256", secret).update(`${t}.{}`).digest("hex")}`;
    const program = `${codeOf("signatures", "Checking a signature, in Python")}
import sys
print(*[is_genuine(b"{}", header, "whsec_a") for header in sys.argv[1:]])`;
    const headers = [sign(seconds, "whsec_a"), sign(seconds, "whsec_b"), sign(seconds - 400, "whsec_a")];
    const child = Bun.spawn(["python3", "-c", program, ...headers]);
    expect(await new Response(child.stdout).text()).toBe("True False False\n");
  },
);

const CURL = Bun.which("curl");

const MAIL = `From: Ben <ben@remote.example>
To: alice@example.test
Subject: Contract
Message-ID: <contract@remote.example>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

Signed.
--b
Content-Type: application/pdf; name=contract.pdf
Content-Disposition: attachment; filename=contract.pdf

%PDF
--b--
`;

test.skipIf(!CURL)(
  `the reference's commands work, with a key and ids${CURL ? "" : " (skipped: no curl)"}`,
  async () => {
    const { api, http, mx, owner } = booted;
    const remote = mailer(mx);
    await remote.send({ from: "ben@remote.example", to: "alice@example.test" }, MAIL);
    remote.close();
    const { threads } = (await api.get<{ threads: { id: string }[] }>("/threads")).body;
    const thread = await api.get<{ messages: { id: string; attachments: { id: string }[] }[] }>(
      `/threads/${threads[0]?.id}`,
    );
    const [message] = thread.body.messages;
    const env = {
      PATH: process.env.PATH ?? "",
      KEY: owner.apiKey,
      THREAD_ID: threads[0]?.id ?? "",
      MESSAGE_ID: message?.id ?? "",
      ATTACHMENT_ID: message?.attachments[0]?.id ?? "",
    };
    const cwd = temporaryFolder();
    const statuses = await Promise.all(
      MAIL_OPERATIONS.map(async ({ name }) => {
        const command = codeOf(name, "Request")
          .replace("http://localhost:8025", http)
          .replace("ada@example.com", "alice@example.test");
        expect([name, command]).toEqual([name, expect.stringContaining(`${http}/api/v1/`)]);
        const child = Bun.spawn(["sh", "-c", `${command} -s -w '\n%{http_code}'`], { env, cwd, stderr: "ignore" });
        return [name, (await new Response(child.stdout).text()).split("\n").at(-1)];
      }),
    );
    expect(statuses).toEqual(MAIL_OPERATIONS.map(({ name, success }) => [name, String(success)]));
    expect([...new Bun.Glob("*").scanSync(cwd)].sort()).toEqual([`${message?.id}.eml`, "contract.pdf"].sort());
  },
);
