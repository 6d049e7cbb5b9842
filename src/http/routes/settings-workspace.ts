/** The routes that administer a workspace and the server, for owners and admins (settings.ts). */
import type { Route } from "../route.ts";
import { type DoctorParts, doctorRoutes } from "./settings-doctor.ts";
import { type DomainsParts, domainsRoutes } from "./settings-domains.ts";
import { type MailboxesParts, mailboxesRoutes } from "./settings-mailboxes.ts";
import { type PeopleParts, peopleRoutes } from "./settings-people.ts";
import { type ServerParts, serverRoutes } from "./settings-server.ts";
import { type WorkspacesParts, workspacesRoutes } from "./settings-workspaces.ts";

export interface WorkspaceParts extends DomainsParts, MailboxesParts, PeopleParts, WorkspacesParts {
  doctor: DoctorParts["doctor"];
  searching: ServerParts["searching"];
  options: MailboxesParts["options"] & ServerParts["options"];
}

export const workspaceRoutes = (parts: WorkspaceParts): Route[] => [
  ...peopleRoutes(parts),
  ...mailboxesRoutes(parts),
  ...domainsRoutes(parts),
  ...serverRoutes(parts),
  ...doctorRoutes(parts),
  ...workspacesRoutes(parts),
];
