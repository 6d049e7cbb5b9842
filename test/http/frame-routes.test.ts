/** Messages in their frame, previews and remote images, over HTTP, for a person who is signed in. */
import { beforeAll, describe, expect, test } from "bun:test";
import * as people from "../../src/admin/people.ts";
import { type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const PDF = Buffer.from("%PDF-1.4\n%%EOF\n");
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');
const HTML = `<h1>Hello</h1><img src="cid:logo@x"><img src="https://track.example/p.gif?a=1&amp;b=2"><script>x</script>`;

const FILES: [name: string, type: string, bytes: Buffer, id?: string][] = [
  ["logo.png", "image/png", PNG, "logo@x"],
  ["räder.png", "application/octet-stream", PNG],
  ["a.pdf", "application/pdf", PDF],
  ["page.pdf", "application/pdf", Buffer.from("<script>alert(1)</script>")],
  ["page.png", "image/png", Buffer.from("<script>alert(1)</script>")],
  ["a.svg", "image/svg+xml", SVG],
  ["a.html", "text/html", Buffer.from("<script>alert(1)</script>")],
  ["bare.pdf", "image/png", PDF],
];

const MAIL = [
  "From: Carol <carol@remote.example>",
  "To: alice@example.test",
  "Subject: Hello",
  "Message-ID: <1@remote.example>",
  "MIME-Version: 1.0",
  'Content-Type: multipart/mixed; boundary="b"',
  "",
  "--b",
  "Content-Type: text/html",
  "",
  HTML,
  ...FILES.flatMap(([name, type, bytes, id]) => [
    "--b",
    `Content-Type: ${type}`,
    "Content-Transfer-Encoding: base64",
    ...(id ? [`Content-ID: <${id}>`] : []),
    `Content-Disposition: attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    "",
    bytes.toString("base64"),
  ]),
  "--b--",
  "",
].join("\r\n");

let booted: Booted;
let alice: Page;
let message: { id: string; attachments: { id: string; filename: string }[] };

beforeAll(async () => {
  booted = await boot({}, zone({ "track.example": { a: ["127.0.0.1"] } }));
  await setPassword(booted, booted.owner.userId);
  alice = await signIn(booted, "alice@example.test");
  await mailer(booted.mx).send({ from: "carol@remote.example", to: "alice@example.test" }, MAIL);
  const { messages } = (await alice.get<{ messages: { id: string }[] }>("/messages")).body;
  message = (await alice.get<{ message: typeof message }>(`/messages/${messages[0]?.id}`)).body.message;
});

const preview = (name: string, asker = alice) =>
  asker.fetch(`/attachments/${message.attachments.find(({ filename }) => filename === name)?.id}/preview`);

describe("the frame", () => {
  test("shows the message under a policy of its own", async () => {
    const answer = await alice.fetch(`/messages/${message.id}/frame`);
    const logo = message.attachments[0]?.id;
    expect(await answer.text()).toContain(
      `<main><h1>Hello</h1><img src="/app/attachments/${logo}/preview" /><img data-blocked="" /></main>`,
    );
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "content-security-policy":
        "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
        "frame-ancestors 'self'; sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox",
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "x-dns-prefetch-control": "off",
    });
    expect(answer.headers.has("x-frame-options")).toBe(false);
  });

  test("has URLs of remote images when asked, which work for that person alone", async () => {
    const document = await (await alice.fetch(`/messages/${message.id}/frame?images=1`)).text();
    const address = /<img src="\/app(\/images\?[^"]*)"/.exec(document)?.[1]?.replaceAll("&amp;", "&") ?? "";
    expect(new URLSearchParams(address.slice(8)).get("url")).toBe("https://track.example/p.gif?a=1&b=2");
    // The name resolves to a private address, so no image comes. A changed URL and another person are refused before
    // that.
    expect((await alice.fetch(address)).status).toBe(502);
    expect((await alice.fetch(`${address}x`)).status).toBe(403);
    expect((await page(booted).fetch(address)).status).toBe(401);
  });
});

describe("a preview", () => {
  const shown: [name: string, type: string, disposition: string][] = [
    ["logo.png", "image/png", 'inline; filename="logo.png"'],
    ["räder.png", "image/png", "inline; filename=\"r_der.png\"; filename*=UTF-8''r%C3%A4der.png"],
  ];
  for (const [name, type, disposition] of shown) {
    test(`of ${name} is shown`, async () => {
      const { status, headers } = await preview(name);
      expect([status, headers.get("content-type")]).toEqual([200, type]);
      expect(headers.get("content-security-policy")).toBe("default-src 'none'; frame-ancestors 'self'; sandbox");
      expect(headers.get("content-disposition")).toBe(disposition);
      expect([headers.get("x-content-type-options"), headers.get("cache-control")]).toEqual([
        "nosniff",
        "private, max-age=3600",
      ]);
    });
  }

  for (const name of ["a.pdf", "page.pdf", "page.png", "a.svg", "a.html", "bare.pdf"]) {
    test(`of ${name}, which is not an image, is a download`, async () => {
      const { status, headers } = await preview(name);
      expect([status, headers.get("content-disposition")]).toEqual([200, `attachment; filename="${name}"`]);
      expect(headers.get("content-security-policy")).toBe("sandbox; default-src 'none'");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    });
  }

  test("is the attachment's bytes", async () => {
    expect(Buffer.from(await (await preview("logo.png")).bytes())).toEqual(PNG);
  });
});

test("people without access, or without a session, get nothing", async () => {
  const { core, opened, owner } = booted;
  const ben = core.store.transact((tx) =>
    people.addUser(opened.core, tx, {
      workspaceId: owner.workspaceId,
      email: "ben@example.test",
      name: "Ben",
      role: "member",
      ownMailbox: true,
    }),
  );
  await setPassword(booted, ben.userId);
  for (const [asker, status] of [
    [await signIn(booted, "ben@example.test"), 404],
    [page(booted), 401],
  ] as const) {
    expect((await asker.fetch(`/messages/${message.id}/frame`)).status).toBe(status);
    expect((await preview("logo.png", asker)).status).toBe(status);
  }
  const elsewhere = { headers: { "sec-fetch-site": "cross-site" } };
  expect((await alice.fetch(`/messages/${message.id}/frame`, elsewhere)).status).toBe(403);
});
