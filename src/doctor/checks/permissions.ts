/** Nobody but the server's own user may read what is in the data folder, and the server may write all of it. */
import { join } from "node:path";
import type { Check } from "../check.ts";

const OTHERS = 0o077;
/** Named at most. */
const SOME = 5;

const named = (paths: readonly string[]): string =>
  paths.length <= SOME ? paths.join(", ") : `${paths.slice(0, SOME).join(", ")} and ${paths.length - SOME} more`;

export const checkPermissions: Check = async ({ config, system }) => {
  const base = { id: "permissions", name: "File permissions" } as const;
  const [folder, ...files] = await system.entries(config.data);
  if (!folder) return [{ ...base, state: "unknown", detail: `${config.data} cannot be looked at` }];
  const keys = files.some(({ path }) => path === join(config.data, "tls"))
    ? await system.entries(join(config.data, "tls"))
    : [];
  const all = [folder, ...files, ...keys];
  // In a folder that nobody else may enter, what lies there is out of reach.
  const open = (folder.mode & OTHERS) === 0 ? [] : all.filter(({ mode }) => (mode & OTHERS) !== 0);
  if (open.length > 0) {
    return [
      {
        ...{ ...base, state: "bad", detail: `others may reach ${named(open.map(({ path }) => path))}` },
        todo: `Close the folder to others: chmod 700 ${config.data}`,
      },
    ];
  }
  const foreign = all.filter(({ uid }) => uid !== folder.uid).map(({ path }) => path);
  if (foreign.length > 0) {
    return [
      {
        ...{ ...base, state: "bad", detail: `${named(foreign)} belong to another user than the folder` },
        todo: `Give all of it to the server's user: chown -R --reference=${config.data} ${config.data}`,
      },
    ];
  }
  return [{ ...base, state: "ok", detail: "only the server's user reaches the data folder" }];
};
