import { expect, test } from "bun:test";
import { findNames } from "../../src/tls/names.ts";
import { type Zone, zone } from "../harness/dns-server.ts";

const ZONE: Zone = {
  "mail.example.com": { a: ["192.0.2.1"], aaaa: ["2001:db8::1"] },
  "mta-sts.example.com": { cname: "mail.example.com" },
  "mta-sts.six.example": { aaaa: ["2001:db8::1"] },
  "mta-sts.elsewhere.example": { a: ["192.0.2.9"] },
  "mta-sts.broken.example": "SERVFAIL",
};

const find = (baseUrl: string, domains: readonly string[] = []) =>
  findNames({
    ...{ hostname: "Mail.example.com", baseUrl, dns: zone(ZONE) },
    policyHosts: () => domains.map((domain) => `mta-sts.${domain}`),
  });

test("a certificate is for the server, the web, and the policy hosts that lead here", async () => {
  const domains = ["example.com", "six.example", "elsewhere.example", "broken.example", "missing.example"];
  expect(await find("https://app.example.com", domains)).toEqual({
    main: "mail.example.com",
    others: ["app.example.com", "mta-sts.example.com", "mta-sts.six.example"],
  });
});

test.each(["https://mail.example.com", "http://localhost:8025", "https://192.0.2.1"])(
  "%s adds no name",
  async (baseUrl) => {
    expect(await find(baseUrl)).toEqual({ main: "mail.example.com", others: [] });
  },
);

test("an order has no more names than Let's Encrypt takes", async () => {
  const domains = new Array<string>(150).fill("example.com");
  expect((await find("https://app.example.com", domains)).others.length).toBeLessThan(100);
});
