/**
 * A mail app that keeps account: of what it was told of the selected mailbox (RFC 9051 §7), and of what no server may tell it.
 * It reads replies octet for octet, with their literals.
 */
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

export interface Reply {
  /** `OK`, `NO`, `BAD`; `BYE` if the session ended. */
  status: string;
  /** Text that follows the status. */
  text: string;
  /** The untagged responses before it, literals in place of `{n}\r\n`. */
  untagged: string[];
}

export interface ImapAccount {
  /** Sends a command and waits for its reply. `command` may have literals as `{n+}\r\n…`. */
  say(command: string): Promise<Reply>;
  /** Sends octets as they are. */
  write(octets: string | Uint8Array): void;
  /** The next line, with its literals; undefined when the connection has ended. */
  line(): Promise<string | undefined>;
  /** UIDs by sequence number − 1; undefined where it has not been told. */
  readonly uids: (number | undefined)[];
  /** Flags by UID, as they were last told. */
  readonly flags: Map<number, string>;
  /** Untagged responses that the server must not have sent. */
  readonly mistakes: string[];
  end(): void;
}

export async function imapAccount(port: number, user: string, password: string): Promise<ImapAccount> {
  const account = await imapStranger(port);
  const { status, text } = await account.say(`LOGIN ${user} ${password}`);
  if (status !== "OK") throw new Error(text);
  return account;
}

/** Opens a connection that has not signed in. */
export async function imapStranger(port: number, localAddress = "127.0.0.1"): Promise<ImapAccount> {
  const raw = connect({ host: "127.0.0.1", port, localAddress });
  const socket = connectTls({ socket: raw, rejectUnauthorized: false });
  let received = "";
  let wake = (): void => {};
  let isOver = false;
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    wake();
  });
  const over = (): void => {
    isOver = true;
    wake();
  };
  socket.on("close", over);
  socket.on("error", over);

  let uids: (number | undefined)[] = [];
  const flags = new Map<number, string>();
  const mistakes: string[] = [];
  let tags = 0;
  /** The command under way, in capitals. */
  let running = "";

  /** The length of the first line in `received` with its literals; undefined if it is not whole. */
  function wholeLine(): number | undefined {
    for (let at = 0; ; ) {
      const end = received.indexOf("\r\n", at);
      if (end < 0) return undefined;
      const literal = /\{(\d+)\}$/.exec(received.slice(at, end));
      if (!literal) return end + 2;
      at = end + 2 + Number(literal[1]);
      if (received.length < at) return undefined;
    }
  }

  async function line(): Promise<string | undefined> {
    for (;;) {
      const length = wholeLine();
      if (length !== undefined) {
        const text = received.slice(0, length - 2);
        received = received.slice(length);
        return text;
      }
      if (isOver) return undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  function account(text: string): void {
    const [, number, what, rest = ""] = /^\* (\d+) (EXISTS|EXPUNGE|FETCH)(?: (.*))?$/s.exec(text) ?? [];
    const n = Number(number);
    if (what === "EXISTS") {
      if (n < uids.length) mistakes.push(`${text}, after ${uids.length}`);
      while (uids.length < n) uids.push(undefined);
    } else if (what === "EXPUNGE") {
      if (/^(?:FETCH|STORE|SEARCH|COPY)/.test(running)) mistakes.push(`${text} in ${running}`);
      if (n < 1 || n > uids.length) mistakes.push(`${text} of ${uids.length}`);
      const [uid] = uids.splice(n - 1, 1);
      if (uid !== undefined) flags.delete(uid);
    } else if (what === "FETCH") {
      if (n < 1 || n > uids.length) mistakes.push(`${text} of ${uids.length}`);
      const [, uid] = /[( ]UID (\d+)/.exec(rest) ?? [];
      const known = uids[n - 1];
      if (uid !== undefined) {
        if (known !== undefined && known !== Number(uid)) mistakes.push(`${text}, which was ${known}`);
        const before = uids.slice(0, n - 1).findLast((one) => one !== undefined);
        if (before !== undefined && before >= Number(uid)) mistakes.push(`${text}, after ${before}`);
        uids[n - 1] = Number(uid);
      }
      const [, told] = /[( ]FLAGS \(([^)]*)\)/.exec(rest) ?? [];
      const of = uids[n - 1];
      if (told !== undefined && of !== undefined) flags.set(of, told.split(" ").sort().join(" "));
    }
    const [, set] = /^\* VANISHED (?!\(EARLIER\))(\S+)$/.exec(text) ?? [];
    if (set !== undefined) {
      const gone = new Set(
        set.split(",").flatMap((range) => {
          const [from = 0, to = from] = range.split(":").map(Number);
          return Array.from({ length: to - from + 1 }, (_, i) => from + i);
        }),
      );
      for (const uid of gone) {
        const known = uids.indexOf(uid);
        // One whose UID it has not been told is behind the last one below it.
        const index = known >= 0 ? known : uids.findLastIndex((one) => one !== undefined && one < uid) + 1;
        if (index < uids.length && (known >= 0 || uids[index] === undefined)) uids.splice(index, 1);
        else mistakes.push(`${text}: ${uid} is unknown`);
        flags.delete(uid);
      }
    }
  }

  const greeting = await line();
  if (!greeting?.startsWith("* OK")) throw new Error(greeting ?? "the connection ended");
  return {
    line,
    mistakes,
    flags,
    get uids() {
      return uids;
    },
    write: (octets) => void socket.write(typeof octets === "string" ? Buffer.from(octets, "latin1") : octets),
    end: () => socket.destroy(),
    async say(command) {
      const tag = `t${++tags}`;
      running = command.replace(/^UID /i, "").toUpperCase();
      if (/^(?:SELECT|EXAMINE) /.test(running)) {
        uids = [];
        flags.clear();
      }
      socket.write(`${tag} ${command}\r\n`, "latin1");
      const untagged: string[] = [];
      for (;;) {
        const text = await line();
        if (text === undefined) return { status: "BYE", text: "", untagged };
        if (text.startsWith(`${tag} `)) {
          const [, status = "", rest = ""] = /^\S+ (\S+) ?(.*)$/s.exec(text) ?? [];
          return { status, text: rest, untagged };
        }
        untagged.push(text);
        account(text);
      }
    },
  };
}

/** A number that a response or a code tells. */
export const told = (lines: readonly string[], name: string): number =>
  Number(new RegExp(`${name} (\\d+)`).exec(lines.join("\n"))?.[1]);

/** A message as an app has it. */
export interface Fetched {
  uid: number;
  /** EMAILID */
  id: string;
  size: number;
  /** Sorted. */
  flags: string;
  octets: string;
}

/** Opens a mailbox and fetches all of it. */
export async function fetchAll(client: ImapAccount, name: string): Promise<{ validity: number; mail: Fetched[] }> {
  const { untagged: opened } = await client.say(`SELECT ${name}`);
  const { untagged } = await client.say("UID FETCH 1:* (EMAILID FLAGS RFC822.SIZE BODY.PEEK[])");
  const mail = untagged.map((line) => ({
    uid: told([line], "UID"),
    id: /EMAILID \(([^)]+)\)/.exec(line)?.[1] ?? "",
    size: told([line], "RFC822.SIZE"),
    flags: (/FLAGS \(([^)]*)\)/.exec(line)?.[1] ?? "").split(" ").sort().join(" "),
    octets: /BODY\[\] \{\d+\}\r\n(.*)\)$/s.exec(line)?.[1] ?? "",
  }));
  return { validity: told(opened, "UIDVALIDITY"), mail };
}

export const subjectsOf = (mail: readonly Fetched[]): string[] =>
  mail.map(({ octets }) => /^Subject: (.*)\r$/m.exec(octets)?.[1] ?? "");
