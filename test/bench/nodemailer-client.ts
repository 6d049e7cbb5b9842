/** The floor of relaying: nodemailer, pooled, sending plain messages. Arguments: port, messages, bytes, connections. */
import { createTransport } from "nodemailer";
import { words } from "./generator.ts";

const [port = 0, messages = 0, bytes = 0, connections = 1] = process.argv.slice(2).map(Number);
const transport = createTransport({
  host: "127.0.0.1",
  port,
  pool: true,
  maxConnections: connections,
  maxMessages: Number.POSITIVE_INFINITY,
  ignoreTLS: true,
});
const { text } = words(9);
await Promise.all(
  Array.from({ length: messages }, (_, n) =>
    transport.sendMail({
      from: "owner@example.test",
      to: `reader-${n}@sink.example`,
      subject: `Message ${n}`,
      text: text(bytes),
    }),
  ),
);
transport.close();
