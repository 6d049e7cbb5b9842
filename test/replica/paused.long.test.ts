/**
 * A server that stood still for longer than its term, as a virtual machine may, while another took over: it says 250 to
 * nothing and commits nothing when it goes on.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { HOLD_MS } from "../../src/replica/lease.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { serve } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

describe.skipIf(noReplica !== undefined)(`a server that stood still${noReplica ? ` (${noReplica})` : ""}`, () => {
  test.each(["local", "replica"])(
    "takes nothing when it goes on, with replica.ack=%s",
    async (ack) => {
      const s3 = await startS3();
      const place = await replicatedPlace(s3, { "replica.ack": ack });
      const server = await serve(place);
      const client = await connectSmtp(server.mx);
      await client.expect(250, "MAIL FROM:<carol@remote.example>");
      await client.expect(250, "RCPT TO:<owner@example.test>");
      await client.expect(354, "DATA");
      process.kill(server.pid, "SIGSTOP");
      const stoppedAt = performance.now();
      const other = { epoch: 2, holder: "b", nonce: "n", released: false, url: "https://two.example", renewedAt: "" };
      await s3.direct.write("team/lease", JSON.stringify(other));
      client.write(`${letter({ to: "owner@example.test" }).replaceAll(/\r?\n/g, "\r\n")}\r\n.\r\n`);
      await until(() => performance.now() - stoppedAt > HOLD_MS + 2_000);
      process.kill(server.pid, "SIGCONT");
      const reply = await client.reply().catch((error) => error);
      expect(reply).not.toMatchObject({ code: 250 });
      expect([1, 3] as unknown[]).toContain(await server.ended);
      using sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
      expect(sqlite.query("SELECT count(*) AS n FROM messages").get()).toEqual({ n: 0 });
    },
    120_000,
  );
});
