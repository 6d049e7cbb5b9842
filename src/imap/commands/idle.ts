/** IDLE (RFC 2177): the server tells of changes until the client says DONE. */
import { Malformed, type Parser } from "../grammar.ts";
import { Ended, type ImapSession } from "../session.ts";

/** `waits`: calls back when something may have changed, until its result is called. */
export async function runImapIdle(
  session: ImapSession,
  parser: Parser,
  onChange: (look: () => void) => () => void,
): Promise<string> {
  parser.end();
  session.caller("idle");
  await session.wire.write("+ idling\r\n");
  let telling = Promise.resolve();
  const tell = (): void => {
    telling = telling
      .then(() => session.tellChanges())
      .catch((error) => session.wire.hangUp(error instanceof Ended ? error.message : "The server failed"));
  };
  const stop = onChange(tell);
  tell();
  try {
    const line = await session.wire.line();
    if (line !== undefined && line.toUpperCase() !== "DONE") throw new Malformed("expected DONE");
  } finally {
    stop();
    await telling;
  }
  return "IDLE ended";
}
