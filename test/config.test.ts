import { describe, expect, test } from "bun:test";
import { ConfigError } from "../src/base/errors.ts";
import { blobsEnvironment, readConfig } from "../src/config.ts";

describe("the environment", () => {
  test("has the documented defaults (rules: Environment)", () => {
    expect(readConfig({})).toEqual({
      data: "./data",
      baseUrl: "http://localhost:8025",
      http: { host: "127.0.0.1", port: 8025 },
      https: "off",
      mx: { host: "127.0.0.1", port: 2525 },
      submission: { host: "127.0.0.1", port: 2587 },
      submissions: { host: "127.0.0.1", port: 2465 },
      imap: "off",
      imaps: "off",
      tls: { mode: "self-signed" },
      hostname: "localhost",
      dns: [],
      trustedProxies: [],
      blobs: undefined,
      replica: undefined,
      log: "info",
    });
  });

  test("is read whole", () => {
    expect(
      readConfig({
        MAILROOM_DATA: "/var/lib/mailroom",
        MAILROOM_BASE_URL: "https://mail.example.com/",
        MAILROOM_HTTP: "off",
        MAILROOM_HTTPS: "[::]:443",
        MAILROOM_MX: "[::]:25",
        MAILROOM_SUBMISSION: "off",
        MAILROOM_SUBMISSIONS: "0.0.0.0:465",
        MAILROOM_IMAP: "127.0.0.1:1143",
        MAILROOM_IMAPS: "[::]:993",
        MAILROOM_TLS: "files:/etc/cert.pem,/etc/key.pem",
        MAILROOM_DNS: "127.0.0.1:5399, 9.9.9.9,[::1]:53,2620:fe::fe",
        MAILROOM_TRUSTED_PROXIES: "10.0.0.0/8,fd00::/8,127.0.0.1",
        MAILROOM_LOG: "debug",
      }),
    ).toMatchObject({
      data: "/var/lib/mailroom",
      baseUrl: "https://mail.example.com",
      http: "off",
      https: { host: "::", port: 443 },
      mx: { host: "::", port: 25 },
      submission: "off",
      submissions: { host: "0.0.0.0", port: 465 },
      imap: { host: "127.0.0.1", port: 1143 },
      imaps: { host: "::", port: 993 },
      tls: { mode: "files", cert: "/etc/cert.pem", key: "/etc/key.pem" },
      hostname: "mail.example.com",
      dns: ["127.0.0.1:5399", "9.9.9.9", "[::1]:53", "2620:fe::fe"],
      trustedProxies: ["10.0.0.0/8", "fd00::/8", "127.0.0.1"],
      log: "debug",
    });
  });

  test.each([
    [undefined, "http://localhost:8025"],
    ["127.0.0.1:9000", "http://localhost:9000"],
    ["[::]:80", "http://localhost"],
    ["127.0.0.1:0", "http://localhost:8025"],
    ["off", "http://localhost:8025"],
  ])("MAILROOM_HTTP=%s gives the base URL %s", (http, baseUrl) => {
    expect(readConfig({ MAILROOM_HTTP: http })).toMatchObject({ baseUrl, hostname: "localhost" });
  });

  test("gives a child process the place of blobs", () => {
    const given = {
      MAILROOM_BLOBS: "s3://mail/a/b?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=eu-1",
      AWS_ACCESS_KEY_ID: "id",
      AWS_SECRET_ACCESS_KEY: "secret",
    };
    const config = readConfig(given);
    expect(readConfig(blobsEnvironment(config)).blobs).toEqual(config.blobs);
    expect(blobsEnvironment(readConfig({}))).toEqual({});
  });

  test.each(["https://s3.example.test", "https://s3.example.test:9000"])(
    "the endpoint %s has no final dot",
    (endpoint) => {
      const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
      const dotted = endpoint.replace("test", "test.");
      expect(readConfig({ ...env, MAILROOM_BLOBS: `s3://mail?endpoint=${dotted}` }).blobs?.endpoint).toBe(endpoint);
    },
  );

  test("names places in S3, by default Amazon's own", () => {
    const credentials = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
    const env = {
      ...credentials,
      MAILROOM_BLOBS: "s3://mail.files/team/a/?endpoint=http://127.0.0.1:9000&region=eu-central-1",
      MAILROOM_REPLICA: "s3://mail-replica",
    };
    const keys = { accessKeyId: "id", secretAccessKey: "secret" };
    expect(readConfig(env)).toMatchObject({
      blobs: {
        ...{ bucket: "mail.files", prefix: "team/a/", endpoint: "http://127.0.0.1:9000", region: "eu-central-1" },
        ...keys,
      },
      replica: {
        ...{ bucket: "mail-replica", prefix: "", endpoint: "https://s3.us-east-1.amazonaws.com", region: "us-east-1" },
        ...keys,
      },
    });
    for (const value of [
      ...[
        "s3://B",
        "s3:bucket",
        "https://bucket/prefix",
        "bucket",
        "s3://bucket/a b",
        "s3://bucket/p?enpoint=http://h",
      ],
      ...[
        "s3://bucket?endpoint=host:9000",
        "s3://bucket?endpoint=http://host/path",
        "s3://user@bucket/p",
        "s3://bucket#a",
      ],
    ]) {
      expect(() => readConfig({ ...credentials, MAILROOM_BLOBS: value })).toThrow(
        /^MAILROOM_BLOBS .*give s3:\/\/BUCKET/,
      );
    }
    expect(() => readConfig({ MAILROOM_REPLICA: "s3://bucket" })).toThrow(
      "MAILROOM_REPLICA needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  });

  test("names an authority, by default Let's Encrypt", () => {
    const env = { MAILROOM_TLS: "acme", MAILROOM_BASE_URL: "https://mail.example.com" };
    const directory = "https://acme-v02.api.letsencrypt.org/directory";
    expect(readConfig(env).tls).toEqual({ mode: "acme", directory, email: undefined, challenge: { type: "http" } });
    const own = { MAILROOM_ACME_DIRECTORY: "https://ca.example:14000/dir", MAILROOM_ACME_EMAIL: "me@example.com" };
    expect(readConfig({ ...env, ...own }).tls).toEqual({
      ...{ mode: "acme", directory: "https://ca.example:14000/dir", email: "me@example.com" },
      challenge: { type: "http" },
    });
  });

  test.each([
    ["http", {}, { type: "http" }],
    ["tls-alpn", { MAILROOM_HTTP: "off", MAILROOM_HTTPS: "0.0.0.0:443" }, { type: "tls-alpn" }],
    ["dns-hook:/etc/mailroom/hook", { MAILROOM_HTTP: "off" }, { type: "dns-hook", program: "/etc/mailroom/hook" }],
  ] as const)("names are proven by %s", (value, env, challenge) => {
    const base = { MAILROOM_TLS: "acme", MAILROOM_BASE_URL: "https://mail.example.com" };
    expect(readConfig({ ...base, MAILROOM_ACME_CHALLENGE: value, ...env }).tls).toMatchObject({ challenge });
  });

  test.each([
    "dns",
    "dns-hook:relative/hook",
    "dns-update:ns.example.net,/etc/mailroom/tsig.key",
    "dns-update:[2001:db8::53]:5353,/etc/key",
    "tls-alpn-01",
  ])("MAILROOM_ACME_CHALLENGE=%s is refused", (value) => {
    const env = { MAILROOM_TLS: "acme", MAILROOM_HOSTNAME: "mail.example.com", MAILROOM_ACME_CHALLENGE: value };
    expect(() => readConfig(env)).toThrow("MAILROOM_ACME_CHALLENGE");
  });

  test.each([
    ["MAILROOM_HOSTNAME", {}],
    ["MAILROOM_HOSTNAME", { MAILROOM_HOSTNAME: "localhost" }],
    ["MAILROOM_HOSTNAME", { MAILROOM_HOSTNAME: "[192.0.2.1]" }],
    ["MAILROOM_HTTP", { MAILROOM_HOSTNAME: "mail.example.com", MAILROOM_HTTP: "off" }],
    ["MAILROOM_HTTPS", { MAILROOM_HOSTNAME: "mail.example.com", MAILROOM_ACME_CHALLENGE: "tls-alpn" }],
    ["MAILROOM_ACME_DIRECTORY", { MAILROOM_ACME_DIRECTORY: "http://ca.example/dir" }],
    ["MAILROOM_ACME_DIRECTORY", { MAILROOM_ACME_DIRECTORY: "letsencrypt" }],
    ["MAILROOM_ACME_EMAIL", { MAILROOM_ACME_EMAIL: "a@b.example,c@d.example" }],
  ])("an authority that could not work is refused by %s", (name, env) => {
    const read = () => readConfig({ MAILROOM_TLS: "acme", ...env });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(name);
  });

  test("cannot be changed afterwards", () => {
    expect(Object.isFrozen(readConfig({}))).toBe(true);
  });

  test.each([
    ["MAILROOM_BASE_URL", "localhost:8025"],
    ["MAILROOM_BASE_URL", "ftp://example.com"],
    ["MAILROOM_BASE_URL", "https://example.com/mail"],
    ["MAILROOM_HTTP", "8025"],
    ["MAILROOM_HTTP", "127.0.0.1:70000"],
    ["MAILROOM_MX", "::1:25"],
    ["MAILROOM_SUBMISSION", "nowhere"],
    ["MAILROOM_SUBMISSIONS", "host:port"],
    ["MAILROOM_HTTPS", "443"],
    ["MAILROOM_TLS", "letsencrypt"],
    ["MAILROOM_TLS", "files:only-one"],
    ["MAILROOM_HOSTNAME", "bad host"],
    ["MAILROOM_DNS", "dns.example.com"],
    ["MAILROOM_DNS", "1.2.3.4:99999"],
    ["MAILROOM_TRUSTED_PROXIES", "10.0.0.0/33"],
    ["MAILROOM_TRUSTED_PROXIES", "everyone"],
    ["MAILROOM_LOG", "loud"],
  ])("%s=%s is refused by name", (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(ConfigError);
    expect(() => readConfig({ [name]: value })).toThrow(name);
  });
});
