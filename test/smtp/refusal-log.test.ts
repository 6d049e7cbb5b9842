/** The log of refusals: it shows every kind, and a flood of refusals does not flood it. */
import { expect, test } from "bun:test";
import { createRefusalLog } from "../../src/smtp/smtp-listener.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { testLog } from "../harness/servers/mx-rig.ts";

test("the log has one line a minute for each reason, with the number of refusals since the last", () => {
  const runtime = fakeRuntime();
  const { log, lines } = testLog(runtime);
  const note = createRefusalLog(log, runtime.now);
  const seen = () => lines.splice(0).map(({ message, reason, ip, unlogged }) => ({ message, reason, ip, unlogged }));
  for (let i = 0; i < 1_000; i++) note("unknownRecipient", { ip: `192.0.2.${i % 256}` });
  note("greylisted", { ip: "198.51.100.1" });
  expect(seen()).toEqual([
    { message: "refused", reason: "unknownRecipient", ip: "192.0.2.0", unlogged: undefined },
    { message: "refused", reason: "greylisted", ip: "198.51.100.1", unlogged: undefined },
  ]);
  runtime.advanceTo(runtime.now() + 59_999);
  note("unknownRecipient", { ip: "192.0.2.1" });
  expect(seen()).toEqual([]);
  runtime.advanceTo(runtime.now() + 1);
  note("unknownRecipient", { ip: "192.0.2.2" });
  note("greylisted", { ip: "198.51.100.2" });
  expect(seen()).toEqual([
    { message: "refused", reason: "unknownRecipient", ip: "192.0.2.2", unlogged: 1_000 },
    { message: "refused", reason: "greylisted", ip: "198.51.100.2", unlogged: undefined },
  ]);
  runtime.advanceTo(runtime.now() - 3_600_000);
  note("greylisted", { ip: "198.51.100.3" });
  expect(seen()).toHaveLength(1);
});
