/**
 * Settings, for somebody in a browser: under /app/settings what concerns the workspace, beside it their own profile.
 *
 * Invariant: what concerns the workspace is for its owners and admins, and of their own workspace only. A member is
 * refused before the request is looked at: that is decided here, once for all of it; and again after a body that was waited for.
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

/** Administrative operations that the app calls as they are; mailboxes, people and domains have routes of their own. */
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
