/** A standby takes over right after its server was killed, and only if it can have the ports of a server. */
import { describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { takePort } from "../harness/port.ts";
import { run, runJson, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

describe.skipIf(noReplica !== undefined)(`promotion${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("with a port that is taken leaves the lease alone; right after a kill it waits the lease out", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const first = await serve(one);
    const [mx, imaps] = [await takePort(), await takePort()];
    const env = {
      ...one.env,
      MAILROOM_BASE_URL: "https://two.example",
      MAILROOM_MX: `127.0.0.1:${mx}`,
      MAILROOM_IMAPS: `127.0.0.1:${imaps}`,
    };
    const two = { data: temporaryFolder(), env };
    const second = await start(two, "standby");
    const { code } = await runJson<{ code: string }>(one, "standby", "invite");
    await runJson(two, "standby", "join", code);
    await until(async () => (await apiClient(second.http, one.apiKey).get("/threads")).status === 200);
    await first.kill("SIGKILL");

    const busy = createServer().listen(mx, "127.0.0.1");
    const puts = (): number => s3.asked.filter((line) => /^PUT .*lease/.test(line)).length;
    const before = puts();
    expect(before).toBeGreaterThan(0);
    const refused = await run(two, ["promote"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toMatch(/cannot listen at MAILROOM_MX \(.*EADDRINUSE.*\): .*the lease was left alone/);
    expect(refused.stderr).not.toContain("MAILROOM_IMAPS");
    expect(puts()).toBe(before);
    // It goes on as a standby.
    expect((await apiClient(second.http, one.apiKey).get("/threads")).status).toBe(200);
    await new Promise((resolve) => busy.close(resolve));

    const promoted = await runJson<{ epoch: number; ready: Record<string, string> }>(two, "promote");
    expect(promoted).toMatchObject({ epoch: 2, ready: { mx: `127.0.0.1:${mx}`, imaps: `127.0.0.1:${imaps}` } });
    await second.kill("SIGTERM");
  }, 240_000);
});
