/** The floor of ingest: the same SMTP library, taking mail and throwing it away. Prints its port. */
import { SMTPServer } from "smtp-server";

const server = new SMTPServer({
  authOptional: true,
  disableReverseLookup: true,
  disabledCommands: ["STARTTLS", "AUTH"],
  onData(stream, _session, done) {
    stream.resume();
    stream.on("end", () => done());
  },
});
server.listen(0, "127.0.0.1", () => {
  const address = server.server.address();
  if (address !== null && typeof address === "object") console.log(address.port);
});
