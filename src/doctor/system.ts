/** The operating system and the network, as checks see them; tests hand in a fake. */
import { X509Certificate } from "node:crypto";
import { createSocket } from "node:dgram";
import { existsSync } from "node:fs";
import { readdir, readFile, stat, statfs } from "node:fs/promises";
import { connect as connectTcp } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { limitOfOpenFiles } from "../base/descriptors.ts";
import { isThisMachineAddress } from "../net/ip.ts";

export interface Space {
  /** Bytes. */
  free: number;
  total: number;
  freeInodes: number;
  /** 0 where the file system has no fixed number. */
  inodes: number;
}

export interface Entry {
  path: string;
  isFolder: boolean;
  /** The permission bits. */
  mode: number;
  uid: number;
}

/** The first words of a listener. */
export interface Greeting {
  /** Its first line, without TLS. */
  line?: string;
  /** Its TLS certificate, PEM. */
  certificate?: string;
}

export interface System {
  space(path: string): Promise<Space>;
  /** A folder and its direct entries. */
  entries(path: string): Promise<Entry[]>;
  /** True when the clock follows a time server; undefined when the system does not tell. */
  clockFollows(): Promise<boolean | undefined>;
  /**
   * Limit of open files of the server on a data folder; undefined without a server, or when the system does not tell.
   */
  openFilesOfServer(folder: string): Promise<number | undefined>;
  /** True for an address, as canonicalIpAddress gives it, that this machine has. */
  owns(address: string): boolean;
  /** The address of this machine for connections to the internet in a family; undefined without a route. */
  leavesFrom(family: 4 | 6): Promise<string | undefined>;
  /** Connects, waits for `expect` and hangs up. @throws errors of the network; Error after a timeout */
  greet(host: string, port: number, expect: "line" | "certificate" | "connection"): Promise<Greeting>;
}

const PATIENCE_MS = 8_000;
/** Addresses that only a default route leads to; nothing is sent there. */
const FAR_AWAY = { 4: "192.88.99.1", 6: "2001:4860:4860::8888" } as const;

export const operatingSystem: System = {
  async space(path) {
    const { bavail, blocks, bsize, files, ffree } = await statfs(path);
    return { free: bavail * bsize, total: blocks * bsize, freeInodes: ffree, inodes: files };
  },

  async entries(path) {
    const names = [path, ...(await readdir(path)).map((name) => join(path, name))];
    const found = await Promise.all(
      names.map(async (name) => {
        // The server may remove it meanwhile.
        const stats = await stat(name).catch(() => undefined);
        return stats ? [{ path: name, isFolder: stats.isDirectory(), mode: stats.mode & 0o777, uid: stats.uid }] : [];
      }),
    );
    return found.flat();
  },

  async clockFollows() {
    if (existsSync("/run/systemd/timesync/synchronized")) return true;
    try {
      const asked = Bun.spawn(["timedatectl", "show", "--property=NTPSynchronized", "--value"], {
        stdio: ["ignore", "pipe", "ignore"],
        timeout: PATIENCE_MS,
      });
      const answer = (await new Response(asked.stdout).text()).trim();
      return answer === "yes" ? true : answer === "no" ? false : undefined;
    } catch {
      return undefined;
    }
  },

  async openFilesOfServer(folder) {
    try {
      // The server holds a lock on this file; /proc/locks has its process id (proc_locks(5)).
      const { ino } = await stat(join(folder, "serving.lock"));
      const locks = await readFile("/proc/locks", "latin1");
      const pid = new RegExp(`\\sWRITE\\s+(\\d+)\\s+\\S+:${ino}\\s`).exec(locks)?.[1];
      return pid === undefined ? undefined : limitOfOpenFiles(Number(pid));
    } catch {
      return undefined;
    }
  },

  owns: isThisMachineAddress,

  leavesFrom: (family) =>
    new Promise((resolve) => {
      // A UDP socket that is connected sends nothing, and has the address that the system chooses.
      const socket = createSocket(`udp${family}`);
      const end = (address?: string) => {
        socket.close();
        resolve(address);
      };
      socket.once("error", () => end());
      try {
        socket.connect(53, FAR_AWAY[family], () => end(socket.address().address));
      } catch {
        end();
      }
    }),

  greet: (host, port, expect) =>
    new Promise((resolve, reject) => {
      const end = (greeting: Greeting) => {
        socket.destroy();
        resolve(greeting);
      };
      const connectSecurely = () => {
        const secure = connectTls({ host, port, rejectUnauthorized: false }, () => {
          const { raw } = secure.getPeerCertificate();
          end(raw === undefined ? {} : { certificate: new X509Certificate(raw).toString() });
        });
        return secure;
      };
      const socket = expect === "certificate" ? connectSecurely() : connectTcp({ host, port });
      if (expect === "connection") socket.on("connect", () => end({}));
      let said = "";
      if (expect === "line") {
        socket.on("data", (bytes: Buffer) => {
          said += bytes.toString("latin1");
          if (!said.includes("\n") && said.length < 2_000) return;
          socket.write("QUIT\r\n");
          end({ line: (said.split(/\r?\n/)[0] ?? "").slice(0, 500) });
        });
      }
      socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error(`no answer within ${PATIENCE_MS / 1000} s`)));
      socket.on("error", reject);
      socket.on("end", () => socket.destroy(new Error("it hung up")));
    }),
};
