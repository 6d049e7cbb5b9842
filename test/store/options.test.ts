/** The settings (rules: Settings): every documented one, its valid values, and its refusals. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ConfigError } from "../../src/base/errors.ts";
import { options as table } from "../../src/store/schema.ts";
import { openOptions, SETTINGS, type SettingName } from "../../src/store/settings.ts";
import { storeInMemory } from "../harness/data/database.ts";

function open() {
  const store = storeInMemory();
  const options = openOptions(store);
  return { store, options, set: (name: string, text: string) => store.transact((tx) => options.set(tx, name, text)) };
}

test("every documented setting has its default", () => {
  const defaults = Object.fromEntries(
    open()
      .options.list()
      .map((row) => [row.name, row.value]),
  );
  expect(defaults).toEqual({
    "api.keyRequestsPerMinute": "120",
    "api.ipRequestsPerMinute": "60",
    "api.cooldownSeconds": "60",
    "api.allowOrigins": "none",
    "oauth.grants": "admins",
    "sending.mailboxPerHour": "100",
    "sending.workspacePerHour": "500",
    "sending.warmup": "50,100,200,400,800,1600,3200",
    "sending.maxRecipients": "100",
    "smtp.relay": "none",
    "smtp.outboundPort": "25",
    "smtp.allowNetworks": "none",
    "smtp.trustedResolvers": "127.0.0.0/8,::1/128",
    "smtp.maxMessageBytes": "26214400",
    "smtp.retrySeconds": "60,300,900,1800,3600,7200,14400,28800,57600",
    "mtaSts.mode": "testing",
    "mx.trustedNetworks": "127.0.0.0/8,::1/128",
    "mx.connectionsPerMinute": "300",
    "mx.messagesPerMinute": "300",
    "mx.recipientsPerMinute": "1500",
    "mx.dnsbl": "none",
    "mx.greylistSeconds": "off",
    "webhooks.retrySeconds": "60,300,1800,7200,21600,43200",
    "webhooks.timeoutSeconds": "10",
    "webhooks.allowNetworks": "none",
    "webhooks.disableAfter": "15",
    "storage.mailboxBytes": "5368709120",
    "spam.rejectDmarc": "true",
    "spam.trustedForwarders": "none",
    "spam.junkThreshold": "0.9999",
    "rules.forwardOutside": "false",
    "holds.days": "7",
    "retention.deliveryLogDays": "30",
    "retention.idempotencyHours": "24",
    "retention.journalDays": "90",
    "retention.journalReadDays": "14",
    "retention.traceDays": "30",
    "retention.trashDays": "off",
    "blobs.cacheBytes": "2000000000",
    "backup.folder": "off",
    "backup.everyHours": "24",
    "backup.keep": "7",
    "backup.recipients": "none",
    "metrics.allowNetworks": "none",
    "metrics.token": "none",
    "replica.ack": "local",
    "replica.onLost": "stop",
    "replica.litestreamPath": "auto",
    "search.engine": "fts5",
    "search.meilisearchPath": "auto",
    "search.meilisearchUrl": "none",
    "search.meilisearchKey": "none",
  });
});

test("every setting has a one-line description, and accepts its own default", () => {
  for (const row of open().options.list()) {
    expect(row.description).toMatch(/^[A-Z].{10,100}$/);
    expect(row).toMatchObject({ id: row.name, default: row.value });
    expect(() => SETTINGS[row.name as SettingName].parse(row.default)).not.toThrow();
  }
});

const TAKEN: [name: SettingName, text: string, value: unknown, kept?: string][] = [
  ["api.cooldownSeconds", "0.5", 0.5],
  ["api.cooldownSeconds", " 7 ", 7, "7"],
  ["api.allowOrigins", "none", "none"],
  [
    "api.allowOrigins",
    "https://App.Example.com:443/, http://localhost:3000,https://bücher.example,https://app.example.com",
    ["https://app.example.com", "http://localhost:3000", "https://xn--bcher-kva.example"],
    "https://app.example.com,http://localhost:3000,https://xn--bcher-kva.example",
  ],
  ["api.allowOrigins", "http://[::1]:3000", ["http://[::1]:3000"]],
  ["retention.deliveryLogDays", "1e-7", 1e-7],
  ["sending.mailboxPerHour", "0", 0],
  ["sending.warmup", "off", "off"],
  ["sending.warmup", "10, 20", [10, 20], "10,20"],
  [
    "smtp.relay",
    "smtp://user:p%40ss@relay.example:587",
    "smtp://user:p%40ss@relay.example:587",
    "smtp://user:***@relay.example:587",
  ],
  [
    "smtp.relay",
    "smtps://user:a:b@c@relay.example?",
    "smtps://user:a:b@c@relay.example?",
    "smtps://user:***@relay.example/?",
  ],
  ["smtp.relay", "smtp://user@relay.example", "smtp://user@relay.example"],
  ["smtp.relay", "smtps://[2001:db8::1]", "smtps://[2001:db8::1]"],
  ["smtp.relay", "none", "none"],
  ["smtp.retrySeconds", "0.1,0.2", [0.1, 0.2]],
  ["webhooks.retrySeconds", "1", [1]],
  ["webhooks.allowNetworks", "10.0.0.0/8, ::1/128", ["10.0.0.0/8", "::1/128"], "10.0.0.0/8,::1/128"],
  ["webhooks.allowNetworks", "none", "none"],
  ["smtp.allowNetworks", "127.0.0.0/8", ["127.0.0.0/8"], "127.0.0.0/8"],
  ["mx.trustedNetworks", "none", "none"],
  ["mx.trustedNetworks", "192.0.2.0/24", ["192.0.2.0/24"]],
  [
    "mx.dnsbl",
    "ZEN.Spamhaus.org., bl.example.net",
    ["zen.spamhaus.org", "bl.example.net"],
    "zen.spamhaus.org,bl.example.net",
  ],
  ["mx.dnsbl", "none", "none"],
  ["mx.greylistSeconds", "off", "off"],
  ["mx.greylistSeconds", "0.5", 0.5],
  ["spam.rejectDmarc", "false", false],
  [
    "spam.trustedForwarders",
    "Lists.example.org, bücher.example",
    ["lists.example.org", "xn--bcher-kva.example"],
    "lists.example.org,xn--bcher-kva.example",
  ],
  ["spam.trustedForwarders", "none", "none"],
  ["spam.junkThreshold", "0.9", 0.9],
  ["spam.junkThreshold", "off", "off"],
  ["retention.trashDays", "0.25", 0.25],
  ["retention.trashDays", "off", "off"],
  ["blobs.cacheBytes", "1000000", 1_000_000],
  ["backup.folder", "/mnt/disk/mail room", "/mnt/disk/mail room"],
  ["backup.folder", "off", "off"],
  ["backup.everyHours", "0.5", 0.5],
  ["backup.keep", "1", 1],
  ["replica.ack", "replica", "replica"],
  ["replica.onLost", "serve", "serve"],
  ["smtp.maxMessageBytes", "50 MiB", 52_428_800, "52428800"],
  ["storage.mailboxBytes", "1GB", 1_000_000_000, "1000000000"],
  ["replica.litestreamPath", "/opt/litestream", "/opt/litestream"],
  ["search.engine", "fts5", "fts5"],
  ["search.engine", "meilisearch", "meilisearch"],
  ["search.meilisearchPath", "/opt/meili search/bin", "/opt/meili search/bin"],
  ["search.meilisearchPath", "auto", "auto"],
  [
    "search.meilisearchUrl",
    "HTTPS://Search.example/meili/",
    "https://search.example/meili",
    "https://search.example/meili",
  ],
  ["search.meilisearchUrl", "http://[::1]:7700", "http://[::1]:7700"],
  ["search.meilisearchUrl", "none", "none"],
  ["search.meilisearchKey", "s3cret+/=_-", "s3cret+/=_-", "(set)"],
  ["search.meilisearchKey", "none", "none"],
  ["metrics.token", "of-twenty-characters", "of-twenty-characters", "(set)"],
];

test.each(TAKEN)("%s accepts %p", (name, text, value, kept = text) => {
  const { store, options, set } = open();
  set(name, text);
  expect(options.get(name)).toEqual(value as never);
  const again = openOptions(store);
  expect(again.get(name)).toEqual(value as never);
  expect(again.find(name).value).toBe(kept);
});

const REFUSED: [name: string, text: string, says: RegExp][] = [
  ["no.suchSetting", "1", /there is no setting "no\.suchSetting"/],
  ["toString", "1", /there is no setting/],
  ["api.keyRequestsPerMinute", "0", /give a whole number \(requests\), 1 to/],
  ["api.keyRequestsPerMinute", "1.5", /whole number/],
  ["api.keyRequestsPerMinute", "", /whole number/],
  ["api.cooldownSeconds", "-1", /give a number \(seconds\), 0 to/],
  ["api.cooldownSeconds", "0x10", /give a number/],
  ["api.cooldownSeconds", "Infinity", /give a number/],
  ["api.cooldownSeconds", "1e400", /give a number/],
  ["api.cooldownSeconds", "a minute", /api\.cooldownSeconds cannot be "a minute"/],
  ["api.allowOrigins", "*", /give up to 32 origins, such as https:\/\/app\.example\.com, separated by commas, or none/],
  ["api.allowOrigins", "https://*.example.com", /origins/],
  ["api.allowOrigins", "https://example.com/app", /origins/],
  ["api.allowOrigins", "example.com", /origins/],
  ["api.allowOrigins", "null", /origins/],
  ["api.allowOrigins", "https://user:p@example.com", /origins/],
  ["api.allowOrigins", "file:///tmp", /origins/],
  ["api.allowOrigins", "https://a.example,", /origins/],
  ["api.allowOrigins", "https://a.example:99999", /origins/],
  ["sending.maxRecipients", "0", /whole number/],
  ["sending.warmup", "", /or several with commas, or off/],
  ["sending.warmup", "10,,20", /or off/],
  ["sending.warmup", "10,2.5", /whole number/],
  ["smtp.relay", "relay.example:25", /give smtp:\/\/user:password@host:port or smtps:\/\/…, or none/],
  ["smtp.relay", "http://relay.example", /smtp:/],
  ["smtp.relay", "smtp://relay.example/path", /smtp:/],
  ["smtp.relay", "smtp://", /smtp:/],
  ["smtp.outboundPort", "65536", /1 to 65535/],
  ["smtp.maxMessageBytes", "12", /1024 to/],
  ["smtp.maxMessageBytes", "2GB", /1024 to/],
  ["storage.mailboxBytes", "5TB", /a number with kB, MB, GB \(1,000\) or KiB, MiB, GiB \(1,024\), 0 to/],
  ["smtp.retrySeconds", "off", /several with commas/],
  ["mx.trustedNetworks", "localhost", /give CIDRs, such as 10\.0\.0\.0\/8, separated by commas, or none/],
  ["mx.connectionsPerMinute", "0", /give a whole number \(a minute\), 1 to 1000000000/],
  [
    "mx.dnsbl",
    "https://zen.spamhaus.org",
    /give up to 8 DNS zones, such as zen\.spamhaus\.org, separated by commas, or none/,
  ],
  ["mx.dnsbl", "a.example,b.example,c.example,d.example,e.example,f.example,g.example,h.example,i.example", /up to 8/],
  ["mx.dnsbl", "localhost", /DNS zones/],
  ["mx.greylistSeconds", "0", /give a number \(seconds\), 0\.1 to 3600, or off/],
  ["webhooks.allowNetworks", "10.0.0.0", /CIDRs, such as 10\.0\.0\.0\/8, separated by commas, or none/],
  ["webhooks.allowNetworks", "10.0.0.300/8", /CIDRs/],
  ["webhooks.allowNetworks", "::1/129", /CIDRs/],
  ["webhooks.timeoutSeconds", "0", /0\.01 to/],
  ["spam.rejectDmarc", "yes", /give true or false/],
  ["spam.trustedForwarders", "lists", /domains, such as.*, or none/],
  ["spam.trustedForwarders", "a.example, ", /domains/],
  ["spam.junkThreshold", "0.4", /give a number \(score\), 0\.5 to 1, or off/],
  ["retention.trashDays", "never", /or off/],
  ["replica.ack", "both", /give one of local, replica/],
  ["replica.onLost", "wait", /give one of stop, serve/],
  ["replica.litestreamPath", "litestream", /absolute path of an executable, or auto/],
  ["search.engine", "grep", /give one of fts5, meilisearch/],
  ["search.meilisearchPath", "bin/meilisearch", /absolute path of an executable, or auto/],
  ["search.meilisearchUrl", "127.0.0.1:7700", /give http:\/\/host:port or https/],
  ["search.meilisearchUrl", "file:///tmp", /give http/],
  ["search.meilisearchUrl", "http://user:secret@host", /without a password in it, or none/],
  // The listed form, as a page would send it back.
  ["search.meilisearchKey", "(set)", /cannot be that: give the secret itself/],
  ["search.meilisearchUrl", "http://host/?q=1", /give http/],
  ["metrics.token", "of-nineteen-charact", /cannot be that: give 20 to 512 printable ASCII characters/],
  ["search.meilisearchKey", "two words", /cannot be that: give up to 512/],
];

test.each(REFUSED)("%s refuses %p", (name, text, says) => {
  const { options, set } = open();
  const before = options.list();
  expect(() => set(name, text)).toThrow(ConfigError);
  expect(() => set(name, text)).toThrow(says);
  expect(options.list()).toEqual(before);
});

describe("the password of a smarthost", () => {
  const SECRET = "smtp://user:p%40ss@relay.example:587";

  test("is kept by a value as it is listed, for the same user and host", () => {
    const { options, set } = open();
    set("smtp.relay", SECRET);
    set("smtp.relay", options.find("smtp.relay").value);
    expect(options.get("smtp.relay")).toBe(SECRET);
    set("smtp.relay", "smtps://user:***@relay.example:465");
    expect(options.get("smtp.relay")).toBe("smtps://user:p%40ss@relay.example:465");
    expect(() => set("smtp.relay", "smtp://user:***@relay.example:465")).toThrow(/with TLS if it had it/);
    set("smtp.relay", "smtp://user:another@relay.example");
    expect(options.get("smtp.relay")).toBe("smtp://user:another@relay.example");
  });

  test.each(["smtp://eve:***@relay.example:587", "smtp://user:***@evil.example:587", "smtp://:***@relay.example"])(
    "is not sent elsewhere by %s, nor is the mask a password",
    (text) => {
      const { options, set } = open();
      expect(() => set("smtp.relay", text)).toThrow(/cannot be that: give the password itself/);
      set("smtp.relay", SECRET);
      expect(() => set("smtp.relay", text)).toThrow(/cannot be that: give the password itself/);
      expect(options.get("smtp.relay")).toBe(SECRET);
    },
  );

  test("is in no refusal, list or row", () => {
    const { options, set } = open();
    for (const [name, text] of [
      ["smtp.relay", "smtp://user:hunter2@relay.example/path"],
      ["smtp.relay", "http://user:hunter2@relay.example"],
      ["search.meilisearchUrl", "http://user:hunter2@host"],
    ] as const) {
      expect(() => set(name, text)).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining("hunter2") }),
      );
    }
    set("smtp.relay", "smtp://user:hunter2@relay.example");
    expect(JSON.stringify([options.list(), options.find("smtp.relay")])).not.toContain("hunter2");
    expect(options.list()).toContainEqual(
      expect.objectContaining({ name: "smtp.relay", value: "smtp://user:***@relay.example" }),
    );
  });
});

test("the stored text of any number is accepted again", () => {
  const seconds = SETTINGS["api.cooldownSeconds"];
  fc.assert(
    fc.property(fc.double({ min: 0, max: 315_576_000, noNaN: true }), (value) => {
      expect(seconds.parse(seconds.format(value))).toBe(value);
    }),
  );
});

test("a setting changed or reset by another process applies", () => {
  const { store, options } = open();
  const beside = openOptions(store);
  store.transact((tx) => beside.set(tx, "sending.maxRecipients", "3"));
  expect(options.get("sending.maxRecipients")).toBe(100);
  options.refresh();
  expect(options.get("sending.maxRecipients")).toBe(3);
  store.transact((tx) => options.reset(tx, "sending.maxRecipients"));
  expect(options.get("sending.maxRecipients")).toBe(100);
  expect(() => store.transact((tx) => options.reset(tx, "nothing"))).toThrow(ConfigError);
});

test("listeners are called when the settings are read again", () => {
  const { store, options } = open();
  const heard: string[] = [];
  options.onRefresh(() => heard.push(options.get("search.engine")));
  store.transact((tx) => options.set(tx, "search.engine", "meilisearch"));
  store.transact((tx) => openOptions(store).reset(tx, "search.engine"));
  options.refresh();
  expect(heard).toEqual(["meilisearch", "fts5"]);
});

test("a rolled-back change does not apply", () => {
  const { store, options, set } = open();
  expect(() =>
    store.transact((tx) => {
      options.set(tx, "sending.maxRecipients", "3");
      options.reset(tx, "api.cooldownSeconds");
      throw new Error("no");
    }),
  ).toThrow("no");
  expect(options.get("sending.maxRecipients")).toBe(100);
  set("api.cooldownSeconds", "5");
  expect([options.get("sending.maxRecipients"), options.get("api.cooldownSeconds")]).toEqual([100, 5]);
});

test("an invalid value from another version counts as the default, and can be reset", () => {
  const { store } = open();
  store.transact((tx) => {
    tx.insert(table)
      .values([
        { name: "search.engine", value: "telepathy" },
        { name: "from.theFuture", value: "1" },
      ])
      .run();
  });
  const options = openOptions(store);
  expect(options.get("search.engine")).toBe("fts5");
  store.transact((tx) => options.reset(tx, "search.engine"));
  expect(store.db.select().from(table).all()).toEqual([{ name: "from.theFuture", value: "1" }]);
});
