/** `mailroom key …` */
import { type KeyRecord, SCOPES } from "../admin/developers.ts";
import { command } from "./command.ts";
import { isoOf } from "./output.ts";
import { WORKSPACE, workspaceIdOf, workspaceNames } from "./workspace.ts";

const present = ({ id, name, userEmail, scopes, hint, revokedAt, createdAt, lastUsedAt }: KeyRecord) => ({
  id,
  name,
  user: userEmail,
  scopes,
  hint,
  state: revokedAt === null ? "active" : "revoked",
  createdAt: isoOf(createdAt),
  lastUsedAt: isoOf(lastUsedAt),
  revokedAt: isoOf(revokedAt),
});

export const keyCommands = [
  command({
    name: "key create",
    summary: "Create an API key that acts for a person; it is shown once",
    options: {
      user: { value: "ADDRESS", required: true, summary: "The person it acts for" },
      name: { value: "NAME", required: true, summary: "What it is called" },
      scopes: { value: SCOPES, list: true, required: true, summary: "What it may do" },
      ...WORKSPACE,
    },
    run(session, { options }) {
      const { store, people, developers } = session.appliance;
      const user = people.userAt(options.user, workspaceIdOf(session, options.workspace));
      const { name, scopes } = options;
      const { id, key } = store.transact((tx) => developers.createKey(tx, { userId: user.id, name, scopes }));
      return { id, key, name, user: user.email, scopes };
    },
  }),
  command({
    name: "key list",
    summary: "List the API keys",
    options: WORKSPACE,
    columns: ["id", "name", "user", "scopes", "hint", "state", "lastUsedAt", "workspace"],
    run(session, { options }) {
      const wanted = workspaceIdOf(session, options.workspace);
      return [...workspaceNames(session)]
        .filter(([id]) => wanted === undefined || id === wanted)
        .flatMap(([id, workspace]) =>
          session.appliance.developers.listKeys(id).map((key) => ({ ...present(key), workspace })),
        );
    },
  }),
  command({
    name: "key revoke",
    summary: "Revoke an API key",
    arguments: { id: "ID" },
    options: WORKSPACE,
    run(session, { arguments: { id }, options }) {
      const { store, developers } = session.appliance;
      const workspaceId = workspaceIdOf(session, options.workspace);
      store.transact((tx) => developers.revokeKey(tx, id, workspaceId));
      return { id, state: "revoked" };
    },
  }),
];
