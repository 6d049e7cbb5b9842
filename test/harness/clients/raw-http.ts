/** A client of HTTP/1.1 that writes whatever bytes a test gives it, and reads responses by RFC 9112. */
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
}

export interface RawClient {
  socket: Socket;
  write(text: string): void;
  /** Sends no more, and still reads. */
  halfClose(): void;
  /** All bytes so far, as Latin-1. */
  text(): string;
  /** The responses that are whole so far. */
  responses(): RawResponse[];
  /** Resolves with the responses once there are so many, or the server has ended the connection. */
  read(count: number): Promise<RawResponse[]>;
  /** Resolves with the responses once the server has ended the connection. */
  readAll(): Promise<RawResponse[]>;
}

function chunksIn(text: string, from: number): { body: string; end: number } | undefined {
  let body = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    at = lineEnd + 2;
    if (text.length < at + size + 2) return undefined;
    body += text.slice(at, at + size);
    at += size + 2;
    if (size === 0) return { body, end: at };
  }
}

/** Reads the first response; undefined while it is not whole. Responses to HEAD are not told from others. */
function firstIn(text: string, isEnded: boolean): (RawResponse & { end: number }) | undefined {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [first = "", ...lines] = text.slice(0, headEnd).split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
  const headers = new Headers(lines.map((line) => [line.split(":")[0] ?? "", line.slice(line.indexOf(":") + 1)]));
  const start = headEnd + 4;
  if (status < 200 || status === 204 || status === 304) return { status, headers, body: "", end: start };
  if (headers.get("transfer-encoding") === "chunked") {
    const chunks = chunksIn(text, start);
    return chunks && { status, headers, ...chunks };
  }
  const length = headers.get("content-length");
  const end = length === null ? (isEnded ? text.length : Number.POSITIVE_INFINITY) : start + Number(length);
  return end > text.length ? undefined : { status, headers, body: text.slice(start, end), end };
}

/** Connects to a port of this machine; `secure`: with TLS, trusting every certificate. */
export async function openRaw(port: number, { secure = false } = {}): Promise<RawClient> {
  const to = { port, host: "127.0.0.1", allowHalfOpen: true, rejectUnauthorized: false };
  const socket = secure ? connectTls(to) : connectTcp(to);
  await new Promise((resolve, reject) => {
    socket.once(secure ? "secureConnect" : "connect", resolve);
    socket.once("error", reject);
  });
  socket.setNoDelay(true);
  let text = "";
  /** Text that is in none of the responses that were found. */
  let unread = "";
  let isEnded = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  socket.on("data", (bytes) => {
    text += bytes.toString("latin1");
    unread += bytes.toString("latin1");
    change();
  });
  for (const event of ["end", "close", "error"]) {
    socket.on(event, () => {
      isEnded = true;
      socket.end();
      change();
    });
  }

  const found: RawResponse[] = [];
  function responses(): RawResponse[] {
    for (;;) {
      const first = firstIn(unread, isEnded);
      if (!first) return found;
      const { end, ...response } = first;
      found.push(response);
      unread = unread.slice(end);
    }
  }

  const read = async (count: number): Promise<RawResponse[]> => {
    while (responses().length < count && !isEnded) await changed.promise;
    return found;
  };
  return {
    socket,
    write: (bytes) => void socket.write(Buffer.from(bytes, "latin1")),
    halfClose: () => void socket.end(),
    text: () => text,
    responses,
    read,
    readAll: () => read(Number.POSITIVE_INFINITY),
  };
}
