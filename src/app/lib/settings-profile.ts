/** Asking the server for what a person settles for themselves. */
import { ask } from "./ask.ts";

export const profileApi = {
  rename: (name: string) => ask<void>("PATCH", "/me", { name }),
  changePassword: (given: { present: string; code?: string; next: string; endAppsAndKeys: boolean }) =>
    ask<void>("POST", "/me/password", given),
};
