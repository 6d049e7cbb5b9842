/** The API reference (rules: Web): its check of a signature works. test/api/snippets.system.test.ts runs its other examples. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { temporaryFolder } from "../harness/folder.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

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

const SECRET = "whsec_a";
const BODY = '{"subject":"Grüße"}';

/** Runs a program to its end, and gives its output. */
async function outputOf(command: string[], env: Record<string, string> = {}, cwd?: string): Promise<string> {
  const child = Bun.spawn(command, { env: { ...process.env, ...env }, ...(cwd && { cwd }), stderr: "inherit" });
  return (await new Response(child.stdout).text()).trim();
}

/** For each language: what it needs, and whether its check takes the body with a header. */
const CHECKS: [language: string, needs: string[], check: (code: string, header: string) => Promise<boolean>][] = [
  [
    "the shell",
    ["sh", "openssl"],
    async (code, HEADER) => {
      const cwd = temporaryFolder();
      await Bun.write(`${cwd}/body.json`, BODY);
      return (await outputOf(["sh", "-c", code], { HEADER, SECRET }, cwd)) === "genuine";
    },
  ],
  [
    "Python",
    ["python3"],
    async (code, header) =>
      (await outputOf([
        "python3",
        "-c",
        `${code}\nimport sys\nprint(is_genuine(sys.argv[1].encode(), sys.argv[2], sys.argv[3]))`,
        ...[BODY, header, SECRET],
      ])) === "True",
  ],
  [
    "JavaScript",
    [process.execPath],
    async (code, header) =>
      (await outputOf([
        process.execPath,
        "-e",
        `${code}\nconsole.log(isGenuine(Buffer.from(${JSON.stringify(BODY)}), ${JSON.stringify(header)}, "${SECRET}"));`,
      ])) === "true",
  ],
];

const noteOf = (needs: readonly string[]): string => {
  const missing = needs.filter((program) => !Bun.which(program));
  return missing.length === 0 ? "" : ` (skipped: no ${missing.join(", ")})`;
};

describe.each(CHECKS)("the reference's check of a signature", (language, needs, check) => {
  const note = noteOf(needs);
  test.skipIf(note !== "")(`works in ${language}${note}`, async () => {
    const now = Math.floor(Date.now() / 1000);
    const sign = (t: number, secret: string, body = BODY) =>
      `t=${t},v1=${createHmac("sha256", secret).update(`${t}.${body}`).digest("hex")}`;
    const code = codeOf("signatures", `Checking a signature, in ${language}`);
    const headers: [what: string, header: string, expected: boolean][] = [
      ["genuine", sign(now, SECRET), true],
      ["of another secret", sign(now, "whsec_b"), false],
      ["of another body", sign(now, SECRET, "{}"), false],
      ["old", sign(now - 400, SECRET), false],
      ["of another time", sign(now, SECRET).replace(`t=${now}`, `t=${now - 1}`), false],
      ["without a signature", `t=${now}`, false],
    ];
    for (const [what, header, expected] of headers) {
      expect([what, await check(code, header)]).toEqual([what, expected]);
    }
  });
});
