/** Imports into a running appliance, as the command does. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import { createLog } from "../../../src/base/log.ts";
import { exportMailbox } from "../../../src/mailbox/filing/transfer.ts";
import { OWN_FILES } from "../../../src/store/named-files.ts";
import type { Store } from "../../../src/store/store.ts";
import { exportMail } from "../../../src/transfer/export-mbox.ts";
import type { Pacing } from "../../../src/transfer/import-mail.ts";
import {
  type ImportRequest,
  type ImportResult,
  importMail,
  LARGEST_MESSAGE,
  openImportParser,
} from "../../../src/transfer/import-mail.ts";
import { createImportDestination, type Destination } from "../../../src/transfer/placement.ts";
import { findMessagesInFiles } from "../../../src/transfer/sources.ts";
import { temporaryFolder } from "../folder.ts";
import type { Booted } from "./boot.ts";
import { shareParser } from "./parser.ts";

/** Makes a folder of these files, in latin1. */
export function files(content: Record<string, string | Uint8Array>): string {
  const folder = temporaryFolder();
  for (const [name, text] of Object.entries(content)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, typeof text === "string" ? Buffer.from(text, "latin1") : text);
  }
  return folder;
}

/** Writes the From line of an mbox, and the message. `at`: epoch ms. */
export const mboxEntry = (message: string, at = Date.parse("2026-01-02T03:04:05Z")): string =>
  `From someone@remote.example ${new Date(at).toUTCString().replace(/^(\w+), (\d+) (\w+) (\d+) (\S+) GMT$/, "$1 $3 $2 $5 $4")}\n${message.replace(/^(>*From )/gm, ">$1")}\n`;

const STEADY: Pacing = { room: () => 3, run: async (_, transaction) => transaction(() => {}), isServed: () => false };

export interface ImportOptions extends Partial<Pick<Destination, "folder" | "read">> {
  /** Address of the mailbox, by default the owner's. */
  into?: string;
  request?: Partial<Pick<ImportRequest, "isInterrupted" | "onProgress" | "messages">>;
  /** Transaction in place of the appliance's own. */
  transact?: Store["transact"];
}

export const GOING_ON = { isInterrupted: () => false, onProgress() {} };

/** Exports a mailbox, by default the owner's. Returns the path of the file. */
export async function exportOf({ opened, owner }: Booted, mailboxId = owner.mailboxId): Promise<string> {
  const path = join(temporaryFolder(), "mail.mbox");
  await exportMail(exportMailbox(opened.core, mailboxId), await OWN_FILES.create(path), GOING_ON);
  return path;
}

export async function importInto(
  { opened, runtime, lines }: Booted,
  path: string,
  { into = "alice@example.test", folder = "inbox", read = false, request = {}, transact }: ImportOptions = {},
): Promise<ImportResult> {
  const { core } = opened;
  const store = { ...core.store, ...(transact && { transact }) };
  const log = createLog("info", runtime.now, (line) => lines.push(JSON.parse(line)));
  const parser = openImportParser({ ...core, store, log }, shareParser);
  const entry = mailboxAdmin.getMailboxByAddress(core, into);
  const destination = createImportDestination(core, entry, people.listUsers(core, entry.workspaceId), { folder, read });
  try {
    return await importMail(
      { core: { ...opened.core, store, log }, parser, pacing: STEADY },
      {
        messages: findMessagesInFiles(path, LARGEST_MESSAGE),
        destination,
        isInterrupted: () => false,
        onProgress() {},
        ...request,
      },
    );
  } finally {
    parser.stop();
  }
}
