/** `mailroom suppression …` */

import { addressOf } from "../admin/names.ts";
import type { Suppression } from "../admin/outbound.ts";
import { AppError, UsageError } from "../base/errors.ts";
import { command } from "./command.ts";
import { isoOf } from "./output.ts";
import type { Session } from "./session.ts";
import { WORKSPACE, workspaceFor, workspaceIdOf, workspaceNames } from "./workspace.ts";

const DEFAULT_REASON = "Added by the operator";

function presenter(session: Session) {
  const names = workspaceNames(session);
  return ({ id, address, reason, workspaceId, createdAt }: Suppression) => ({
    id,
    address,
    reason,
    workspace: names.get(workspaceId),
    createdAt: isoOf(createdAt),
  });
}

const ADDRESS = { address: "ADDRESS" } as const;

/** The one entry for the address. @throws AppError not_found, UsageError when several workspaces have one */
function find(session: Session, text: string, workspaceId: string | undefined): Suppression {
  const address = addressOf(text);
  const [entry, another] = session.appliance.outbound
    .listSuppressions(workspaceId)
    .filter((known) => known.address === address);
  if (!entry) throw new AppError("not_found", `${address} is not suppressed`);
  if (another) throw new UsageError(`several workspaces suppress ${address}: name one with --workspace NAME`);
  return entry;
}

export const suppressionCommands = [
  command({
    name: "suppression add",
    summary: "Refuse mail from a workspace to an address",
    arguments: ADDRESS,
    options: { reason: { value: "REASON", summary: "Why, for people" }, ...WORKSPACE },
    run(session, { arguments: { address }, options: { reason = DEFAULT_REASON, workspace } }) {
      const { store, outbound } = session.appliance;
      const workspaceId = workspaceFor(session, workspace);
      store.transact((tx) => outbound.suppress(tx, { workspaceId, address, reason }));
      return presenter(session)(find(session, address, workspaceId));
    },
  }),
  command({
    name: "suppression list",
    summary: "List the addresses that may not be written to",
    options: WORKSPACE,
    columns: ["id", "address", "reason", "workspace", "createdAt"],
    run: (session, { options }) =>
      session.appliance.outbound.listSuppressions(workspaceIdOf(session, options.workspace)).map(presenter(session)),
  }),
  command({
    name: "suppression remove",
    summary: "Allow mail to an address again",
    arguments: ADDRESS,
    options: WORKSPACE,
    run(session, { arguments: { address: given }, options }) {
      const { store, outbound } = session.appliance;
      const { id, address, workspaceId } = find(session, given, workspaceIdOf(session, options.workspace));
      store.transact((tx) => outbound.unsuppress(tx, workspaceId, address));
      return { id, address, removed: true };
    },
  }),
];
