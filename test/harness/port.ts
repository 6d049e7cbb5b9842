/**
 * Ports of 127.0.0.1 for servers that have to be told one before they start.
 *
 * Invariant: none is where the system takes those from that are asked for as "any" (on Linux 32768 and above). Tests beside
 * this one open connections and listeners by the thousand there, and would now and then have taken a port between its
 * being found free and the server's binding it.
 */
import { connect, createServer } from "node:net";

const FIRST = 10_240;
const COUNT = 32_768 - FIRST;

/** Processes that run beside each other begin at some distance. */
let turn = process.pid * 97;

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });

/** One that nobody listens on, another at each call. */
export async function takePort(): Promise<number> {
  for (;;) {
    const port = FIRST + (turn++ % COUNT);
    if (await isFree(port)) return port;
  }
}

/** Whether somebody takes connections there. */
export const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
