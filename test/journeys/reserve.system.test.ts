/** The way out of a full disk: the commands that the doctor advises work there, by the space that is kept in reserve. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { diskNote, MB, mountDisk } from "../harness/small-disk.ts";
import { until } from "../harness/until.ts";

const ADDRESS = "ada@acme.test";

describe.skipIf(diskNote !== "")(`on a full disk${diskNote}`, () => {
  test("a command works that makes room, mail does not take the room, and the reserve comes back", async () => {
    const disk = mountDisk(120 * MB);
    const place = { data: join(disk.path, "data"), cwd: disk.path };
    mkdirSync(place.data);
    await runJson(place, "setup", "--domain", "acme.test", "--email", ADDRESS, "--name", "Ada");
    await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
    let served = await serve(place);
    const reserve = join(place.data, "reserve");
    expect(Math.round(statSync(reserve).size / MB)).toBe(6);
    expect(statSync(reserve).mode & 0o077).toBe(0);
    const mail = async () => {
      const client = await connectSmtp(served.mx);
      const reply = await client.command("MAIL FROM:<carol@remote.example>");
      const { code } = reply.code === 250 ? await client.command(`RCPT TO:<${ADDRESS}>`) : reply;
      client.destroy();
      return { code };
    };
    expect((await mail()).code).toBe(250);

    const { stdout } = await run(place, ["doctor", "--json"]);
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ id: "disk" }));
    expect(await served.kill("SIGTERM")).toBe(0);

    disk.fill();
    const refused = await run(place, ["import", "--mailbox", ADDRESS, join(import.meta.dir, "../../README.md")]);
    expect([refused.exitCode, existsSync(reserve)]).toEqual([1, true]);
    const told = await run(place, ["settings", "set", "retention.trashDays", "30"]);
    expect(told.stderr).toContain("MB that were kept for this are given up");
    expect([told.exitCode, existsSync(reserve)]).toEqual([0, false]);
    expect(await runJson(place, "settings", "get", "retention.trashDays")).toMatchObject({ value: "30" });
    served = await serve(place);
    // What is left is for whoever makes room.
    expect((await mail()).code).toBe(452);

    disk.empty();
    expect((await mail()).code).toBe(250);
    expect(await served.kill("SIGTERM")).toBe(0);
    served = await serve(place);
    await until(() => existsSync(reserve));
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 240_000);
});
