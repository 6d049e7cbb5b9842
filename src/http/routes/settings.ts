/**
 * Settings in the app: the workspace under /app/settings, the person's own profile under /app/me.
 *
 * Invariant: only owners and admins reach the settings of a workspace, and only of their own. `forAdmins` refuses members
 * before the request is read, and again after its body has arrived.
 */
import { requireAdmin } from "../../access/caller.ts";
import type { Serving } from "../../api/rest.ts";
import { ADMIN_OPERATIONS } from "../../operations/operations.ts";
import type { Route } from "../route.ts";
import { settingsRoute } from "./operation-route.ts";
import { type ProfileParts, profileRoutes } from "./profile.ts";
import { type SecretParts, secretRoute } from "./settings-webhooks.ts";
import { type WorkspaceParts, workspaceRoutes } from "./settings-workspace.ts";

export interface SettingsParts extends ProfileParts, SecretParts, Serving, Omit<WorkspaceParts, "people"> {
  store: SecretParts["store"] & WorkspaceParts["store"];
  people: ProfileParts["people"] & WorkspaceParts["people"];
}

/** Operations that the app calls as they are; mailboxes, people and domains have files of their own. */
const PROJECTED = ADMIN_OPERATIONS.filter(({ path }) => /^\/(suppressions|queue|keys|webhooks)\b/.test(path));

const forAdmins = (routes: readonly Route[]): Route[] =>
  routes.map(({ method, path, run }) => ({
    method,
    path: `/settings${path}`,
    run(asked) {
      requireAdmin(asked.session.caller);
      const requireSession = () => {
        const present = asked.requireSession();
        requireAdmin(present.caller);
        return present;
      };
      return run({ ...asked, requireSession });
    },
  }));

export const settingsRoutes = (parts: SettingsParts): Route[] => [
  ...profileRoutes(parts),
  ...forAdmins([
    ...PROJECTED.map((operation) => settingsRoute(operation, parts)),
    secretRoute(parts),
    ...workspaceRoutes(parts),
  ]),
];
