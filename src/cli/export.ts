/** `mailroom export`: a mailbox as a file that mail programs read, and `mailroom import`. */
import { resolve } from "node:path";
import { exportMail } from "../transfer/export.ts";
import { command } from "./command.ts";
import { WORKSPACE, workspaceIdOf } from "./workspace.ts";

/** Between two lines that say how far it is. */
const PROGRESS_MS = 2_000;

export const exportCommand = command({
  name: "export",
  summary: "Write all mail of a mailbox into an mbox file, which mailroom import takes back as it was",
  options: {
    mailbox: { value: "ADDRESS", required: true, summary: "The mailbox" },
    to: { value: "FILE.mbox", required: true, summary: "The file, which must not exist" },
    ...WORKSPACE,
  },
  async run(session, { options }) {
    const { appliance, runtime, io } = session;
    const { people, mailbox } = appliance;
    const entry = people.mailboxAt(options.mailbox, workspaceIdOf(session, options.workspace));
    let interrupted = false;
    void io.interrupted().then(() => {
      interrupted = true;
    });
    let toldAt = runtime.now();
    const path = resolve(options.to);
    const exported = await exportMail(mailbox.exportMail(entry.id), path, {
      isInterrupted: () => interrupted,
      onProgress(messages) {
        if (runtime.now() - toldAt < PROGRESS_MS) return;
        toldAt = runtime.now();
        io.writeStderr(`${messages} exported\n`);
      },
    });
    if (!exported) throw new Error("interrupted: no file was written");
    return { mailbox: entry.address, to: path, ...exported };
  },
});
