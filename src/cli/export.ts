/** `mailroom export`: writes a mailbox as an mbox file. */
import { resolve } from "node:path";
import { exportMail } from "../transfer/export.ts";
import { command } from "./command.ts";
import { watchProgress } from "./progress.ts";
import { WORKSPACE, workspaceIdOf } from "./workspace.ts";

export const exportCommand = command({
  name: "export",
  summary: "Write a mailbox into an mbox file, from which mailroom import makes the same mailbox",
  options: {
    mailbox: { value: "ADDRESS", required: true, summary: "The mailbox" },
    to: { value: "FILE.mbox", required: true, summary: "The file, which must not exist" },
    ...WORKSPACE,
  },
  async run(session, { options }) {
    const { people, mailbox } = session.appliance;
    const entry = people.mailboxAt(options.mailbox, workspaceIdOf(session, options.workspace));
    const { isInterrupted, tell } = watchProgress(session);
    const path = resolve(options.to);
    const exported = await exportMail(mailbox.exportMail(entry.id), path, {
      isInterrupted,
      onProgress: (messages) => tell(() => `${messages} exported`),
    });
    if (!exported) throw new Error("interrupted: no file was written");
    return { mailbox: entry.address, to: path, ...exported };
  },
});
