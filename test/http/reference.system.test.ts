/** The API reference (rules: Web): its check of a signature works. test/api/snippets.system.test.ts runs its other examples. */
import { beforeAll, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { type Booted, boot } from "../harness/appliance.ts";

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
