/** An SMTP client that costs little: so that what is measured is the server. Loopback only. */
import { connect } from "node:net";

export interface Load {
  port: number;
  to: string;
  connections: number;
  messages: number;
  message: (n: number) => Buffer;
  /** Default: as many as the server takes. */
  perSecond?: number;
  /** Called with the time from the last byte of a message to its 250, ms. */
  took?: (ms: number) => void;
}

/** Hands over `messages` on `connections` connections at once; returns messages per second. Every one must get its 250. */
export async function pump({ port, to, connections, messages, message, perSecond, took }: Load): Promise<number> {
  let next = 0;
  const started = performance.now();
  await Promise.all(Array.from({ length: connections }, () => session()));
  return messages / ((performance.now() - started) / 1_000);

  function session(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1").setNoDelay(true);
      let received = "";
      // Answers awaited: greeting, EHLO, then MAIL, RCPT and DATA in one go, then the message.
      let step: "greeting" | "ehlo" | "envelope" | "content" | "quit" = "greeting";
      let body: Buffer;
      let sentAt = 0;
      const envelope = `MAIL FROM:<load@remote.example>\r\nRCPT TO:<${to}>\r\nDATA\r\n`;
      const start = (): void => {
        if (next >= messages) {
          step = "quit";
          socket.end("QUIT\r\n");
          resolve();
          return;
        }
        const due = perSecond === undefined ? 0 : started + (next * 1_000) / perSecond;
        body = message(next++);
        step = "envelope";
        const wait = due - performance.now();
        if (wait > 0) setTimeout(() => socket.write(envelope), wait);
        else socket.write(envelope);
      };
      socket.on("error", reject);
      socket.on("data", (chunk) => {
        received += chunk.toString("latin1");
        const replies = received.match(/^\d{3} .*\r\n/gm) ?? [];
        const failed = replies.find((reply) => !/^[23]/.test(reply));
        if (failed) return reject(new Error(failed.trim()));
        if (replies.length < (step === "envelope" ? 3 : 1)) return;
        received = "";
        if (step === "greeting") {
          step = "ehlo";
          socket.write("EHLO load.example\r\n");
        } else if (step === "envelope") {
          step = "content";
          sentAt = performance.now();
          socket.write(Buffer.concat([body, Buffer.from("\r\n.\r\n")]));
        } else if (step !== "quit") {
          if (step === "content") took?.(performance.now() - sentAt);
          start();
        }
      });
    });
  }
}
