/** Servers that the operator names are looked up at the resolver of MAILROOM_DNS. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { startFakeMeilisearch } from "../harness/peers/fake-meilisearch.ts";
import { noS3, startS3 } from "../harness/peers/s3.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const HERE = { a: ["127.0.0.1"] };

test.skipIf(noS3 !== undefined)(
  `blobs and search${noS3 === undefined ? "" : ` (${noS3})`}`,
  async () => {
    // Moto takes other names for those of buckets.
    const dns = await startDnsServer({ "localhost-s3.test": HERE, "search.test": HERE });
    const s3 = await startS3();
    const search = startFakeMeilisearch();
    const named = (url: string, name: string) => url.replaceAll("127.0.0.1", name);
    const place = {
      data: temporaryFolder(),
      env: { MAILROOM_DNS: dns.address, MAILROOM_BLOBS: named(s3.url, "localhost-s3.test"), ...s3.credentials },
    };
    expect(place.env.MAILROOM_BLOBS).toContain("localhost-s3.test");
    const address = ["--domain", "example.test", "--email", "owner@example.test", "--name", "Owner"];
    await runJson(place, "setup", ...address);
    await runJson(place, "domain", "verify", "example.test", "--skip-dns");
    await run(place, ["settings", "set", "search.meilisearchUrl", named(search.url, "search.test")]);
    await run(place, ["settings", "set", "search.meilisearchKey", search.key]);
    await run(place, ["settings", "set", "search.engine", "meilisearch"]);
    const server = await serve(place);
    const sender = mailer(server.mx);
    const file = randomBytes(100_000).toString("base64").replace(/.{76}/g, "$&\n");
    const headers = [
      "MIME-Version: 1.0",
      "Content-Type: application/octet-stream",
      "Content-Transfer-Encoding: base64",
    ];
    const to = "owner@example.test";
    await sender.send({ from: "ben@elsewhere.test", to }, letter({ to, headers, text: file }));
    sender.close();
    await until(async () => {
      const health = (await (await fetch(`${server.http}/healthz`)).json()) as { search?: string };
      return health.search === "meilisearch";
    });
    await server.kill("SIGTERM");
    expect(s3.asked.length).toBeGreaterThan(0);
    expect(dns.questions).toContain("a localhost-s3.test");
    expect(dns.questions).toContain("a search.test");
    await dns.close();
  },
  120_000,
);
