/** Clients of TLS listeners. */
import { connect as connectTcp } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";

/** Connects to a port of 127.0.0.1 over TLS, by default to any certificate. Rejects when the server refuses. */
export const openTls = (port: number, options: ConnectionOptions = {}): Promise<TLSSocket> =>
  new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options }, () =>
      resolve(socket),
    );
    socket.once("error", reject);
  });

/** Lines that a client sends before TLS, and how the replies to them begin. */
const BEFORE = {
  smtp: [
    ["", /^220 /m],
    ["EHLO client.example\r\n", /^250 /m],
    ["STARTTLS\r\n", /^220 /m],
  ],
  imap: [
    ["", /^\* OK /m],
    ["a STARTTLS\r\n", /^a OK /m],
  ],
} as const;

/** The names in the certificate that a listener shows to a client which asks for a name, or for none. */
export async function namesShownAt(
  { port, starttls }: { port: number; starttls?: "smtp" | "imap" },
  servername?: string,
): Promise<string[]> {
  const socket = connectTcp(port, "127.0.0.1");
  for (const [said, reply] of starttls ? BEFORE[starttls] : []) {
    socket.write(said);
    await new Promise<void>((resolve, reject) => {
      let heard = "";
      const hear = (chunk: Buffer) => {
        heard += chunk;
        if (reply.test(heard)) resolve(void socket.off("data", hear).off("error", reject));
      };
      socket.on("data", hear).once("error", reject);
    });
  }
  const secured = await openTls(port, { socket, ...(servername !== undefined && { servername }) });
  const { subjectaltname = "" } = secured.getPeerCertificate();
  secured.destroy();
  return subjectaltname.replaceAll("DNS:", "").split(", ").sort();
}
