/** A forward proxy that nobody should use: it counts connections, and refuses what they ask for. */
import { createServer } from "node:net";
import { atEndOfFile } from "../harness/end.ts";

export interface ForwardProxy {
  /** Every variable that programs take a proxy from, in both cases. */
  env: Record<string, string>;
  /** The first line that each connection sent. */
  asked: string[];
}

const running = new Set<() => void>();
atEndOfFile(() => {
  for (const stop of running) stop();
  running.clear();
});

export async function startForwardProxy(): Promise<ForwardProxy> {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (chunk) => {
      asked.push(chunk.toString("latin1").split("\r\n")[0] as string);
      socket.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  running.add(() => server.close());
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [name, name.toLowerCase()]);
  const none = { NO_PROXY: "elsewhere.example", no_proxy: "elsewhere.example" };
  return { asked, env: { ...Object.fromEntries(names.map((name) => [name, url])), ...none, NODE_USE_ENV_PROXY: "1" } };
}
