/** Commands of the operator that print an access token: how long they may take. cli/import-token.system has what they print. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readTokenFromCommand } from "../../src/base/token-command.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { until } from "../harness/until.ts";

test("a command is waited for no longer than its time, also when what it started has its output", async () => {
  const file = join(temporaryFolder(), "pid");
  const pid = (): number => Number(readFileSync(file, { encoding: "utf8", flag: "a+" }));
  let timeIsUp = (): void => {};
  const token = readTokenFromCommand(`sleep 600 & echo $! >"${file}"; echo token`, {
    setTimer(wake) {
      timeIsUp = wake;
      return () => {};
    },
  });
  await until(() => pid() > 0);
  timeIsUp();
  try {
    await expect(token).rejects.toThrow("--token-command did not end within a minute");
  } finally {
    process.kill(pid());
  }
});
