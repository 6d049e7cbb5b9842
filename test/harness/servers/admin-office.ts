/** Administration over a store in memory: one workspace, `Acme` at acme.test, owned by ada, and a second, `Beta`. */
import * as domains from "../../../src/admin/domains.ts";
import * as people from "../../../src/admin/people.ts";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import type { Runtime } from "../../../src/base/runtime.ts";
import type { Role } from "../../../src/store/schema.ts";
import type { Tx } from "../../../src/store/store.ts";
import type { Letter } from "../mail/mail.ts";
import { fileLetter, openInMemory } from "./core.ts";

export function openOffice(overrides: Partial<Runtime> = {}) {
  const { core } = openInMemory({ MAILROOM_HOSTNAME: "mail.acme.test" }, overrides);
  const { store, runtime } = core;
  const write = <T>(work: (tx: Tx) => T) => store.transact((tx) => ({ done: work(tx) })).done;
  const addUser = (workspaceId: string, email: string, role: Role) =>
    write((tx) => people.addUser(core, tx, { workspaceId, email, name: email, role, ownMailbox: true }));
  const made = write((tx) => {
    const acme = workspaceAdmin.addWorkspace(core, tx, "Acme").id;
    const beta = workspaceAdmin.addWorkspace(core, tx, "Beta").id;
    domains.addDomain(core, tx, acme, "acme.test", []);
    domains.addDomain(core, tx, beta, "beta.test", []);
    return { acme, beta };
  });
  const ada = addUser(made.acme, "ada@acme.test", "owner");
  return {
    ...made,
    core,
    runtime,
    store,
    write,
    addUser,
    ada: ada.userId,
    file: (mailboxId: string, mail: Letter) => fileLetter(core, mail, { mailboxId, receivedOn: "" }),
  };
}
