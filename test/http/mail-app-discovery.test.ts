/** The settings that mail apps find: autoconfig and Autodiscover, by Host header and address. */
import { describe, expect, test } from "bun:test";
import * as domains from "../../src/admin/domains.ts";
import { createXmlParser } from "../../src/message/markup.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ON = { MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0" };
const PATH = "/mail/config-v1.1.xml";
const WELL_KNOWN = "/.well-known/autoconfig/mail/config-v1.1.xml";
const OUTLOOK = "/autodiscover/autodiscover.xml";
const SCHEMA = "http://schemas.microsoft.com/exchange/autodiscover/outlook/responseschema/2006a";

const ask = ({ ready }: Booted, host: string, path: string, init: RequestInit = {}) =>
  fetch(`http://${ready.http}${path}`, { redirect: "manual", ...init, headers: { host } });

const outlook = (app: Booted, body: string, host = "autodiscover.example.test", path = OUTLOOK) =>
  ask(app, host, path, { method: "POST", body });

const requestFor = (address: string, schema = SCHEMA): string =>
  `<?xml version="1.0" encoding="utf-8"?>
<Autodiscover xmlns="http://schemas.microsoft.com/exchange/autodiscover/outlook/requestschema/2006">
<Request><EMailAddress>${address}</EMailAddress><AcceptableResponseSchema>${schema}</AcceptableResponseSchema></Request>
</Autodiscover>`;

/** Texts and attributes of each element of a name, in order: `[{hostname, port, …}]`. */
function elements(text: string, name: string): Record<string, string>[] {
  const found: Record<string, string>[] = [];
  let current: Record<string, string> | undefined;
  let inside = "";
  const parser = createXmlParser(
    {
      open(opened, attributes) {
        if (opened === name) {
          current = { ...attributes };
          found.push(current);
        }
        inside = opened;
      },
      close(closed) {
        if (closed === name) current = undefined;
      },
      text(part) {
        if (current && part.trim() !== "") current[inside] = (current[inside] ?? "") + part;
      },
    },
    10,
  );
  parser.write(text);
  parser.end();
  return found;
}

const portOf = (address = ""): string => address.split(":")[1] ?? "";

describe("autoconfig", () => {
  test("names the listeners that are on, implicit TLS first, at each of its addresses", async () => {
    const app = await boot(ON);
    const { imap, imaps, submission, submissions } = app.ready;
    const query = "?emailaddress=alice%40example.test";
    for (const [host, path] of [
      ["autoconfig.example.test", PATH + query],
      ["autoconfig.example.test", PATH],
      ["autoconfig.example.test", `/.well-known/mail-v1.xml${query}`],
      ["example.test", WELL_KNOWN],
      ["Example.TEST:8443", WELL_KNOWN],
      ["localhost", WELL_KNOWN + query],
    ] as const) {
      const response = await ask(app, host, path);
      expect([host, path, response.status]).toEqual([host, path, 200]);
      expect(response.headers.get("content-type")).toBe("text/xml; charset=utf-8");
      expect(response.headers.get("cache-control")).toBe("public, max-age=3600");
      const text = await response.text();
      expect(text).toStartWith('<?xml version="1.0" encoding="UTF-8"?>\n<clientConfig version="1.1">');
      expect(elements(text, "emailProvider")[0]).toMatchObject({ id: "example.test", domain: "example.test" });
      const server = (type: string, address: string | undefined, socketType: string) => ({
        type,
        hostname: "localhost",
        port: portOf(address),
        socketType,
        authentication: "password-cleartext",
        username: "%EMAILADDRESS%",
      });
      expect(elements(text, "incomingServer")).toEqual([
        server("imap", imaps, "SSL"),
        server("imap", imap, "STARTTLS"),
      ]);
      expect(elements(text, "outgoingServer")).toEqual([
        server("smtp", submissions, "SSL"),
        server("smtp", submission, "STARTTLS"),
      ]);
    }
  });

  test("leaves out what is off, and says nothing without IMAP", async () => {
    const app = await boot({ MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_SUBMISSIONS: "off" });
    const text = await (await ask(app, "autoconfig.example.test", PATH)).text();
    expect(elements(text, "incomingServer").map(({ socketType }) => socketType)).toEqual(["STARTTLS"]);
    expect(elements(text, "outgoingServer").map(({ socketType }) => socketType)).toEqual(["STARTTLS"]);
    expect((await ask(await boot(), "autoconfig.example.test", PATH)).status).toBe(404);
  });

  test("does not tell whether an address exists", async () => {
    const app = await boot(ON);
    const texts = ["alice", "nobody"].map(async (name) =>
      (await ask(app, "example.test", `${WELL_KNOWN}?emailaddress=${name}@example.test`)).text(),
    );
    const [known, unknown] = await Promise.all(texts);
    expect(known).toBe(unknown as string);
  });

  test("is served for domains that are verified here, and no others", async () => {
    const app = await boot(ON);
    const { core } = app.opened;
    const { store } = core;
    store.transact((tx) => domains.addDomain(core, tx, app.owner.workspaceId, "new.test", []));
    for (const [host, path] of [
      ["autoconfig.new.test", PATH],
      ["autoconfig.elsewhere.test", PATH],
      ["autoconfig.example.test", `${PATH}?emailaddress=a@elsewhere.test`],
      ["example.test", `${WELL_KNOWN}?emailaddress=a@new.test`],
      ["mail.example.test", WELL_KNOWN],
    ] as const) {
      expect([host, path, (await ask(app, host, path)).status]).toEqual([host, path, 404]);
    }
    store.transact((tx) => tx.$client.run("UPDATE workspaces SET moving = 'out'"));
    expect((await ask(app, "autoconfig.example.test", PATH)).status).toBe(404);
  });

  test("its hosts serve nothing else", async () => {
    const app = await boot(ON);
    for (const host of ["autoconfig.example.test", "AutoDiscover.example.test:443"]) {
      for (const path of ["/", "/sign-in", "/api/v1/mailboxes", "/healthz", "/app/me"]) {
        expect([host, path, (await ask(app, host, path)).status]).toEqual([host, path, 404]);
      }
      expect((await ask(app, host, PATH, { method: "POST" })).status).toBe(405);
    }
    expect((await ask(app, "autoconfig.elsewhere.test", "/healthz")).status).toBe(200);
  });

  test("counts requests of a source", async () => {
    const app = await boot(ON);
    app.core.store.transact((tx) => app.core.options.set(tx, "api.ipRequestsPerMinute", "2"));
    const statuses: number[] = [];
    for (const path of [PATH, OUTLOOK, PATH]) {
      statuses.push((await ask(app, "autoconfig.example.test", path)).status);
    }
    expect(statuses).toEqual([200, 200, 429]);
  });
});

describe("Autodiscover", () => {
  test("answers Outlook with the settings, whatever the case of the path", async () => {
    const app = await boot(ON);
    const { imaps, submissions } = app.ready;
    for (const path of [OUTLOOK, "/Autodiscover/Autodiscover.xml", "/AutoDiscover/AutoDiscover.xml"]) {
      const response = await outlook(app, requestFor("Alice@Example.test"), "localhost", path);
      const text = await response.text();
      expect([response.status, response.headers.get("cache-control")]).toEqual([200, "no-store"]);
      expect(text).toContain(`<Response xmlns="${SCHEMA}">`);
      expect(elements(text, "Account")[0]).toMatchObject({ AccountType: "email", Action: "settings" });
      const common = {
        Server: "localhost",
        LoginName: "alice@example.test",
        DomainRequired: "off",
        SPA: "off",
        SSL: "on",
        Encryption: "SSL",
        AuthRequired: "on",
      };
      expect(elements(text, "Protocol")).toEqual([
        { Type: "IMAP", Port: portOf(imaps), ...common },
        { Type: "SMTP", Port: portOf(submissions), ...common, UsePOPAuth: "on", SMTPLast: "off" },
      ]);
    }
  });

  test("offers STARTTLS where there is nothing else", async () => {
    const app = await boot({ MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_SUBMISSIONS: "off" });
    const text = await (await outlook(app, requestFor("alice@example.test"))).text();
    expect(elements(text, "Protocol").map(({ Encryption }) => Encryption)).toEqual(["TLS", "TLS"]);
  });

  test("answers a GET for the domain of its host", async () => {
    const app = await boot(ON);
    const protocols = elements(await (await ask(app, "autodiscover.example.test", OUTLOOK)).text(), "Protocol");
    expect(protocols.map(({ Type, LoginName }) => [Type, LoginName])).toEqual([
      ["IMAP", undefined],
      ["SMTP", undefined],
    ]);
  });

  test("refuses in its own words: addresses of others, protocols of Exchange", async () => {
    const app = await boot(ON);
    const mobile = "http://schemas.microsoft.com/exchange/autodiscover/mobilesync/responseschema/2006";
    for (const [body, code] of [
      [requestFor("alice@elsewhere.test"), "500"],
      [requestFor("alice@example.test", mobile), "601"],
    ] as const) {
      const text = await (await outlook(app, body, "localhost")).text();
      expect(elements(text, "Error")[0]?.ErrorCode).toBe(code);
      expect(elements(text, "Protocol")).toEqual([]);
    }
    const known = await (await outlook(app, requestFor("alice@example.test"))).text();
    const unknown = await (await outlook(app, requestFor("nobody@example.test"))).text();
    expect(unknown.replaceAll("nobody", "alice")).toBe(known);
  });

  test("expands no entities, and takes neither long nor deep bodies", async () => {
    const app = await boot(ON);
    const bomb = `<!DOCTYPE x [<!ENTITY a "alice"><!ENTITY f SYSTEM "file:///etc/passwd">]>${requestFor("&a;@example.test")}`;
    const text = await (await outlook(app, bomb)).text();
    expect(text).not.toMatch(/alice|root:/);
    expect((await outlook(app, requestFor("a".repeat(9_000)))).status).toBe(413);
    expect((await outlook(app, "<a>".repeat(1_000))).status).toBe(400);
    for (const body of ["", "no XML", "<", requestFor("<b>alice</b>@example.test")]) {
      expect([body, (await outlook(app, body)).status]).toEqual([body, 200]);
    }
    const escaped = await (await outlook(app, requestFor("&lt;&quot;x&amp;@example.test"))).text();
    expect(escaped).not.toContain('"x&@');
  });
});

test("beside HTTPS, HTTP redirects apps to it, Outlook in the way that it takes", async () => {
  const app = await boot({ ...ON, MAILROOM_HTTPS: "127.0.0.1:0", MAILROOM_BASE_URL: "https://mail.example.test" });
  const seen = async (path: string) => {
    const { status, headers } = await ask(app, "autodiscover.example.test", path);
    return [status, headers.get("location")];
  };
  expect(await seen(OUTLOOK)).toEqual([302, `https://mail.example.test${OUTLOOK}`]);
  expect(await seen(`${PATH}?emailaddress=a@example.test`)).toEqual([
    308,
    `https://mail.example.test${PATH}?emailaddress=a@example.test`,
  ]);
  const response = await fetch(`https://${app.ready.https}${PATH}?emailaddress=a@example.test`, {
    headers: { host: "mail.example.test" },
    tls: { rejectUnauthorized: false },
  });
  const [incoming] = elements(await response.text(), "incomingServer");
  expect(incoming?.hostname).toBe("mail.example.test");
});
