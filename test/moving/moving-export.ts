/** Exports of a workspace that somebody edited, with checksums that agree. */
import { Database } from "bun:sqlite";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { newExport } from "../harness/servers/moving-world.ts";

export function copyOf(made: string): string {
  const folder = newExport();
  cpSync(made, folder, { recursive: true });
  return folder;
}

export const generationOf = (folder: string): string => {
  const [id = ""] = readdirSync(join(folder, "generations"));
  return join(folder, "generations", id);
};

/** Writes checksums, as whoever made the export would have. */
export function agree(folder: string): void {
  const at = generationOf(folder);
  const sums = readdirSync(at)
    .filter((name) => name !== "SHA256SUMS")
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(at, name)))
          .digest("hex")}  ${name}\n`,
    );
  writeFileSync(join(at, "SHA256SUMS"), sums.join(""));
}

export function editExport(folder: string, sql: string): void {
  const db = new Database(join(generationOf(folder), "mailroom.db"));
  db.exec("PRAGMA foreign_keys = OFF");
  db.exec(sql);
  db.close();
  agree(folder);
}

export function editManifest(folder: string, change: object): void {
  const path = join(generationOf(folder), "manifest.json");
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...change }));
  agree(folder);
}

/** Puts a blob into an export; returns its name. */
export function writeBlob(folder: string, bytes: Uint8Array): string {
  const blob = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  const path = join(folder, "blobs", blob.slice(0, 2), blob.slice(2));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
  return blob;
}
