/** `openssl s_client` (Debian's openssl) as another implementation of TLS, which a test talks to line by line. */
import { join } from "node:path";
import { temporaryFolder } from "../folder.ts";
import { installed } from "../programs.ts";

export const OPENSSL = installed("openssl");

export interface TlsListener {
  port: number;
  /** The protocol that begins TLS; undefined for TLS from the first byte. */
  starttls?: "smtp" | "imap";
}

export interface TlsClient {
  /** Sends a line; `k` and `K` alone update the keys (RFC 8446 §4.6.3), the second the server's, too. */
  say(line: string): void;
  /** Resolves with the output so far once that matches. @throws Error with the output if the client ends before */
  hear(expected: RegExp): Promise<string>;
  /** Ends the client. Resolves with its whole output. */
  end(): Promise<string>;
}

/** Connects with the given options of s_client. */
export function connectOpenssl({ port, starttls }: TlsListener, ...options: string[]): TlsClient {
  const child = Bun.spawn(
    [
      ...["openssl", "s_client", "-connect", `127.0.0.1:${port}`, "-crlf"],
      ...(starttls ? ["-starttls", starttls] : []),
      ...options,
    ],
    { stdio: ["pipe", "pipe", "pipe"], timeout: 30_000 },
  );
  let output = "";
  let isOver = false;
  let look = (): void => {};
  const read = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
    for await (const chunk of stream) {
      output += Buffer.from(chunk).toString("latin1");
      look();
    }
  };
  const over = Promise.all([read(child.stdout), read(child.stderr)]).then(() => {
    isOver = true;
    look();
  });
  return {
    say(line) {
      child.stdin.write(`${line}\n`);
      child.stdin.flush();
    },
    hear: (expected) =>
      new Promise((resolve, reject) => {
        look = () => {
          if (expected.test(output)) resolve(output);
          else if (isOver) reject(new Error(`${expected} was not said: ${output}`));
        };
        look();
      }),
    async end() {
      child.kill();
      await over;
      return output;
    },
  };
}

/** `ready`: what the client or the server says before the question may be asked. */
export interface Conversation {
  ready: RegExp;
  question: string;
  answer: RegExp;
}

/** Connects twice, the second time with the session of the first: what s_client says of it, `New` or `Reused`. */
export async function resume(
  listener: TlsListener,
  version: "-tls1_2" | "-tls1_3",
  { ready, question, answer, between }: Conversation & { between?(): Promise<void> },
): Promise<string> {
  const session = join(temporaryFolder(), "session.pem");
  const talk = async (...options: string[]): Promise<string> => {
    const client = connectOpenssl(listener, version, ...options);
    await client.hear(ready);
    client.say(question);
    await client.hear(answer);
    return client.end();
  };
  await talk("-sess_out", session);
  await between?.();
  return /^(New|Reused), /m.exec(await talk("-sess_in", session))?.[1] ?? "";
}
