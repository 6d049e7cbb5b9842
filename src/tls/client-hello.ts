/**
 * Reads a TLS ClientHello (RFC 8446 §4.1.2): the server name and the protocols that the client offers. Pure.
 *
 * Invariant: for any bytes, reading terminates and stays within them.
 */

export interface ClientHello {
  /** Lower case; undefined when it names none. */
  serverName: string | undefined;
  /** As offered (RFC 7301); empty when there are none. */
  protocols: readonly string[];
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
const PROTOCOLS = 16;
const HOST_NAME = 0;
/** Fragments of records are at most that long (RFC 8446 §5.1). */
const MOST_IN_RECORD = 2 ** 14;
/** Most bytes of a hello. Usual ones have some hundred, or two thousand with post-quantum keys. */
const MOST_BYTES = 2 ** 14;

/** Reads the bytes received so far: the hello, "more" while it is incomplete, or undefined if they are not a hello. */
export function readClientHello(received: Buffer): ClientHello | "more" | undefined {
  const message = handshakeIn(received);
  if (!Buffer.isBuffer(message)) return message;
  try {
    return parse(message);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Joins the records of the first handshake message, and returns it without its header. */
function handshakeIn(received: Buffer): Buffer | "more" | undefined {
  const fragments: Buffer[] = [];
  let size = 0;
  let end: number | undefined;
  for (let at = 0; ; ) {
    const [type, major] = received.subarray(at, at + 2);
    if ((type ?? HANDSHAKE) !== HANDSHAKE || (major ?? 3) !== 3) return undefined;
    if (received.length < at + 5) break;
    const length = received.readUInt16BE(at + 3);
    if (length === 0 || length > MOST_IN_RECORD) return undefined;
    const fragment = received.subarray(at + 5, at + 5 + length);
    fragments.push(fragment);
    size += fragment.length;
    at += 5 + length;
    if (end === undefined && size >= 4) {
      const header = Buffer.concat(fragments);
      end = 4 + header.readUIntBE(1, 3);
      if (header[0] !== CLIENT_HELLO || end > MOST_BYTES) return undefined;
    }
    if (end !== undefined && size >= end) return Buffer.concat(fragments).subarray(4, end);
    if (fragment.length < length) break;
  }
  return received.length > MOST_BYTES ? undefined : "more";
}

/** @throws RangeError for lengths that do not fit */
function parse(message: Buffer): ClientHello {
  const hello = reader(message);
  // Version and random.
  hello.skip(2 + 32);
  hello.skip(hello.number(1));
  hello.skip(hello.number(2));
  hello.skip(hello.number(1));
  const found: { serverName: string | undefined; protocols: string[] } = { serverName: undefined, protocols: [] };
  if (hello.isAtEnd()) return found;
  const extensions = reader(hello.bytes(hello.number(2)));
  while (!extensions.isAtEnd()) {
    const type = extensions.number(2);
    const body = reader(extensions.bytes(extensions.number(2)));
    if (type === SERVER_NAME) {
      const names = reader(body.bytes(body.number(2)));
      while (!names.isAtEnd()) {
        const kind = names.number(1);
        const name = names.bytes(names.number(2)).toString("latin1").toLowerCase();
        if (kind === HOST_NAME) found.serverName ??= name;
      }
    } else if (type === PROTOCOLS) {
      const list = reader(body.bytes(body.number(2)));
      while (!list.isAtEnd()) found.protocols.push(list.bytes(list.number(1)).toString("latin1"));
    }
  }
  return found;
}

/** Reads bytes in order. Each method @throws RangeError past the end. */
function reader(bytes: Buffer) {
  let at = 0;
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw new RangeError("shorter than it says");
    at += length;
    return bytes.subarray(at - length, at);
  };
  return {
    isAtEnd: () => at >= bytes.length,
    bytes: take,
    skip: (length: number): void => void take(length),
    /** Reads a number of `size` bytes. */
    number: (size: number): number => take(size).readUIntBE(0, size),
  };
}
