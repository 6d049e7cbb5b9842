/**
 * Serves an archive as good and bad servers do. Runs on a machine, with the executable as its Bun, and prints the port.
 *
 *   /whole  the archive      /moved  redirects to it      /cut    breaks off in the middle, with a Content-Length
 *   /short  the same, without a Content-Length            /gone   404
 */
import { readFileSync } from "node:fs";

const archive = readFileSync(process.argv[2] ?? "");
const half = archive.subarray(0, archive.length >> 1);
const answers: Record<string, [status: string, body: Uint8Array]> = {
  "/whole": [`200 OK\r\nContent-Length: ${archive.length}`, archive],
  "/moved": ["302 Found\r\nLocation: /whole\r\nContent-Length: 0", new Uint8Array()],
  "/cut": [`200 OK\r\nContent-Length: ${archive.length}`, half],
  "/short": ["200 OK", half],
};

const server = Bun.listen<{ left: Uint8Array }>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    data(socket, request) {
      const [, path = ""] = request.toString("latin1").split(" ");
      const [status, body] = answers[path] ?? ["404 Not Found\r\nContent-Length: 0", new Uint8Array()];
      const head = Buffer.from(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`, "latin1");
      socket.data = { left: Buffer.concat([head, body]) };
      proceed(socket);
    },
    drain: proceed,
  },
});

function proceed(socket: Bun.Socket<{ left: Uint8Array }>): void {
  socket.data.left = socket.data.left.subarray(socket.write(socket.data.left));
  if (socket.data.left.length === 0) socket.end();
}

console.log(server.port);
