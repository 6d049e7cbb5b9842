/**
 * Settings, for somebody in a browser: under /app/settings what concerns the workspace, beside it their own profile.
 *
 * Invariant: what concerns the workspace is for its owners and admins, and of their own workspace only. A member is
 * refused before the request is looked at: that is decided here, once for all of it; and again after a body that was waited for.
 */
import { requireAdmin } from "../../access/caller.ts";
import type { Route } from "../route.ts";
import { type ProfileParts, profileRoutes } from "./profile.ts";
import { type KeyParts, keyRoutes } from "./settings-keys.ts";
import { type WebhookParts, webhookRoutes } from "./settings-webhooks.ts";
import { type WorkspaceParts, workspaceRoutes } from "./settings-workspace.ts";

export interface SettingsParts extends ProfileParts, KeyParts, WebhookParts, Omit<WorkspaceParts, "people"> {
  store: WebhookParts["store"];
  people: ProfileParts["people"] & WorkspaceParts["people"];
}

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
  ...forAdmins([...keyRoutes(parts), ...webhookRoutes(parts), ...workspaceRoutes(parts)]),
];
