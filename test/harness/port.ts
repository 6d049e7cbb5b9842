/**
 * Ports of 127.0.0.1 for servers that need a number before they start.
 *
 * Invariant: no port is in the system's range for "any" port (on Linux 32768 and above). Other tests open thousands of
 * connections and listeners in that range, and would sometimes take a port before the server binds it.
 */
import { connect, createServer } from "node:net";

const FIRST = 10_240;
const COUNT = 32_768 - FIRST;

/** Concurrent processes start at different ports. */
let turn = process.pid * 97;

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });

/** Finds a port without a listener, another one at each call. */
export async function takePort(): Promise<number> {
  for (;;) {
    const port = FIRST + (turn++ % COUNT);
    if (await isFree(port)) return port;
  }
}

/** True when a server accepts connections at the port. */
export const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
