/** The configurations of docs/proxy.md, in the web servers that they are for, before a real server. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { textOf } from "../harness/doc-pages.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { isListening, takePort } from "../harness/port.ts";
import { runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const PASSWORD = "correct horse battery staple";

interface Ports {
  plain: number;
  tls: number;
  server: number;
}

/** The example of a language in docs/proxy.md, for ports of this machine. */
function configuration(language: string, { plain, tls, server }: Ports): string {
  const [, code = ""] = new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "m").exec(textOf("docs/proxy.md")) ?? [];
  return code.replaceAll(":8025", `:${server}`).replaceAll(/ (\[::\]:)?(80|443)\b/g, (_, six = "", port) => {
    return ` ${six}${port === "80" ? plain : tls}`;
  });
}

/** Each gets a folder with cert.pem and key.pem, and stays in the foreground. */
const PROXIES = {
  nginx(folder: string, ports: Ports) {
    const site = configuration("nginx", ports)
      .replaceAll(/ssl_certificate .*;/g, `ssl_certificate ${folder}/cert.pem;`)
      .replaceAll(/ssl_certificate_key .*;/g, `ssl_certificate_key ${folder}/key.pem;`);
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder};`);
    const http = `http { access_log off; ${paths.join(" ")}\n${site}}`;
    writeFileSync(join(folder, "conf"), `daemon off; pid ${folder}/pid; error_log stderr; events {}\n${http}`);
    return ["nginx", "-c", join(folder, "conf"), "-p", folder, "-e", "stderr"];
  },
  caddy(folder: string, ports: Ports) {
    // The site has this test's certificate instead of an authority's, and its own redirect as everywhere.
    const options = `{\n\tadmin off\n\thttp_port ${ports.plain}\n\thttps_port ${ports.tls}\n}\n`;
    const site = configuration("caddy", ports).replace("{\n", `{\n\ttls ${folder}/cert.pem ${folder}/key.pem\n`);
    writeFileSync(join(folder, "Caddyfile"), options + site);
    return ["caddy", "run", "--config", join(folder, "Caddyfile")];
  },
};

const children: Bun.Subprocess[] = [];
afterAll(() => {
  for (const child of children) child.kill();
});

async function setUp(name: keyof typeof PROXIES) {
  const folder = temporaryFolder();
  const ports = { plain: await takePort(), tls: await takePort(), server: await takePort() };
  const { cert, key } = await makePair("mail.example.com");
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
  const origin = `https://mail.example.com:${ports.tls}`;
  const env = {
    MAILROOM_HTTP: `127.0.0.1:${ports.server}`,
    MAILROOM_BASE_URL: origin,
    MAILROOM_TRUSTED_PROXIES: "127.0.0.1/32",
  };
  const place = { data: join(folder, "data"), env };
  mkdirSync(place.data);
  const owner = ["--domain", "example.com", "--email", "ada@example.com", "--name", "Ada"];
  const { apiKey, password } = await runJson<{ apiKey: string; password: string }>(place, "setup", ...owner);
  await runJson(place, "domain", "verify", "example.com", "--skip-dns");
  const { mx } = await serve(place);
  const child = Bun.spawn(PROXIES[name](folder, ports), {
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdio: ["ignore", "ignore", "ignore"],
  });
  children.push(child);
  await until(() => isListening(ports.tls));
  const resolve = ["--resolve", `mail.example.com:${ports.tls}:127.0.0.1`];
  resolve.push("--resolve", `mail.example.com:${ports.plain}:127.0.0.1`);
  const start = (...args: string[]) =>
    Bun.spawn(["curl", "--silent", "--show-error", "--insecure", "--max-time", "60", ...resolve, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  const curl = async (...args: string[]) => new Response(start(...args).stdout).text();
  return { folder, ports, origin, apiKey, password, mx, start, curl };
}

const PROGRAMS = { nginx: Bun.which("nginx"), caddy: Bun.which("caddy") };

describe.each(["nginx", "caddy"] as const)("behind %s", (name) => {
  const note = PROGRAMS[name] === null ? ` (skipped: ${name} is not installed)` : "";
  test.skipIf(note !== "")(
    `pages, uploads, live updates and clients' addresses pass${note}`,
    async () => {
      const { folder, ports, origin, apiKey, password, mx, start, curl } = await setUp(name);
      const bearer = ["--header", `Authorization: Bearer ${apiKey}`];
      const json = ["--header", "Content-Type: application/json", "--header", `Origin: ${origin}`];

      expect(await curl(`${origin}/`)).toContain("<title>Mailroom</title>");
      expect(await curl("--head", `http://mail.example.com:${ports.plain}/inbox`)).toMatch(
        /^HTTP\/1.1 30[18] [\s\S]*https:/,
      );
      // What the authority asks reaches Mailroom, over a redirect at most; an unknown token is not found.
      const challenge = `http://mail.example.com:${ports.plain}/.well-known/acme-challenge/token`;
      const plain = await curl("--output", "/dev/null", "--write-out", "%{http_code} %{redirect_url}", challenge);
      expect(plain.replace(/ https:.*challenge\/token$/, "")).toMatch(/^(404 |30[18])$/);

      // Each client has requests of its own, whatever it claims to be.
      const left = async (from: string, ...more: string[]) => {
        const answer = await curl("--interface", from, "--include", ...more, `${origin}/api/v1/threads`);
        return Number(/^x-ratelimit-remaining: (\d+)/im.exec(answer)?.[1]);
      };
      const first = await left("127.0.0.2");
      expect(await left("127.0.0.3")).toBe(first);
      expect(await left("127.0.0.2", "--header", "X-Forwarded-For: 192.0.2.1")).toBe(first - 1);

      const file = join(folder, "large.bin");
      writeFileSync(file, Buffer.alloc(18_000_000, 7));
      const request = JSON.stringify({ from: "ada@example.com", to: "ada@example.com", subject: "Large", text: "See" });
      writeFileSync(join(folder, "request.json"), request);
      const parts = ["--form", `request=<${folder}/request.json;type=application/json`, "--form", `file=@${file}`];
      expect(JSON.parse(await curl(...bearer, ...parts, `${origin}/api/v1/send`))).toMatchObject({
        ok: true,
      });
      expect(await curl("--output", "/dev/null", "--write-out", "%{http_code}", `${origin}/metrics`)).toBe("403");

      // A page that is open, and a call that waits, hear of mail when it comes.
      const cookies = join(folder, "cookies");
      const credentials = JSON.stringify({ email: "ada@example.com", password: password ?? PASSWORD });
      await curl("--cookie-jar", cookies, ...json, "--data", credentials, `${origin}/app/sign-in`);
      const live = start("--no-buffer", "--cookie", cookies, `${origin}/app/live`).stdout.getReader();
      const open = await live.read();
      expect(open.done).toBe(false);
      const { next } = JSON.parse(await curl(...bearer, `${origin}/api/ext/v1/changes`)) as { next: string };
      const waiting = curl(...bearer, `${origin}/api/ext/v1/changes?waitSeconds=30&after=${next}`);
      await mailer(mx).send({ from: "ben@elsewhere.example", to: "ada@example.com" }, letter({ subject: "New" }));
      expect(JSON.parse(await waiting)).toMatchObject({ changes: [{ kind: "upserted" }] });
      expect((await live.read()).done).toBe(false);
      await live.cancel();
    },
    120_000,
  );
});
