/**
 * The folder of an export, laid out as a folder of backups (backup/backup-layout.ts), with one generation:
 *
 *   mailroom-workspace.json           marks the folder
 *   blobs/ab/cdef…                    the files of the mail
 *   generations/<time>/
 *     SHA256SUMS                      hashes of the other files here
 *     manifest.json
 *     mailroom.db                     a database of the server's schema with the rows of the workspace alone
 *     blobs.sha256
 *     second-factors.json.age         the secrets of second factors, if the export was asked to seal them
 */
import type { FolderKind } from "../backup/backup-layout.ts";

export const EXPORT: FolderKind = { marker: "mailroom-workspace.json", name: "export of a workspace" };
export const SECOND_FACTORS = "second-factors.json.age";

export interface ExportManifest {
  format: number;
  /** Version of the program that made it. */
  version: string;
  /** Number of migrations applied to its database. */
  schema: number;
  /** ISO 8601. */
  createdAt: string;
  /** The server's host name, for people. */
  hostname: string;
  /** `exp_…`; the final export keeps its id when it is made again. */
  id: string;
  workspace: { id: string; name: string };
  /** The server that made it serves the workspace no more. */
  final: boolean;
  /** Settings of that server that differ from their defaults. */
  settings: Record<string, string>;
  /** Rows by table. */
  rows: Record<string, number>;
  databaseBytes: number;
  blobs: number;
  /** Blobs that the data folder lacked or had damaged; they are not in the export. */
  lacking: string[];
}
