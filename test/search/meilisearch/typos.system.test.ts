/** A search with a typo, over REST with a real Meilisearch: the words found instead are named, marked and ranked. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { apiClient } from "../../harness/clients/api.ts";
import { settle } from "../../harness/data/settle.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { letter, mailer } from "../../harness/mail/mail.ts";
import { hasMeilisearch, startMeilisearch, WITHOUT_MEILISEARCH } from "../../harness/peers/meilisearch.ts";
import { runJson, serve } from "../../harness/servers/process.ts";
import { until } from "../../harness/until.ts";

setDefaultTimeout(300_000);

describe(`typos${WITHOUT_MEILISEARCH}`, () => {
  test.skipIf(!hasMeilisearch)("are forgiven, and the words found instead are named", async () => {
    const { url, key } = await startMeilisearch();
    const data = temporaryFolder();
    const { apiKey } = await runJson<{ apiKey: string }>(
      { data },
      "setup",
      "--domain",
      "acme.test",
      "--email",
      "ada@acme.test",
      "--name",
      "Ada",
    );
    await runJson({ data }, "domain", "verify", "acme.test", "--skip-dns");
    settle({ data }, { "search.meilisearchUrl": url, "search.meilisearchKey": key, "search.engine": "meilisearch" });
    const served = await serve({ data });
    const api = apiClient(served.http, apiKey);
    const sender = mailer(served.mx);
    for (const mail of [
      { subject: "Figures", text: "The quarterly budget is attached." },
      { subject: "Harvest", text: "Soon.", date: "Mon, 05 Jan 2026 08:00:00 +0000" },
      { subject: "Weather", text: "Rain before the harvest.", date: "Mon, 05 Jan 2026 09:00:00 +0000" },
    ]) {
      await sender.send({ from: "c@remote.example", to: "ada@acme.test" }, letter({ to: "ada@acme.test", ...mail }));
    }
    sender.close();
    await until(async () => {
      const health = (await (await fetch(`${served.http}/healthz`)).json()) as { search: string };
      return health.search === "meilisearch";
    });

    const found = (await api.get<object>("/search?q=quartely%20budget")).body;
    expect(found).toMatchObject({
      nearWords: ["quarterly"],
      threads: [
        {
          subject: "Figures",
          highlights: [
            {
              field: "text",
              ranges: [
                [4, 13],
                [14, 20],
              ],
            },
          ],
        },
      ],
    });
    expect(found).not.toHaveProperty("suggestion");
    // Literally or not at all; but a similar query is suggested.
    const quoted = (await api.get<object>("/search?q=%22quartely%20budget%22")).body;
    expect(quoted).toMatchObject({ threads: [], suggestion: '"quarterly budget"' });
    const exact = (await api.get<object>("/search?q=quarterly")).body;
    expect(exact).not.toHaveProperty("nearWords");
    expect(exact).toMatchObject({ threads: [{ highlights: [{ ranges: [[4, 13]] }] }] });

    const subjects = async (asked: string) =>
      (await api.get<{ threads: { subject: string }[] }>(`/search?q=${asked}`)).body.threads.map(
        ({ subject }) => subject,
      );
    for (const q of ["harvest", "harvset"]) {
      expect(await subjects(q)).toEqual(["Weather", "Harvest"]);
      expect(await subjects(`${q}&sort=relevance`)).toEqual(["Harvest", "Weather"]);
    }
    expect(await served.kill("SIGTERM")).toBe(0);
  });
});
