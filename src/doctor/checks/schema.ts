/** The database is of this version. */
import { MIGRATIONS } from "../../store/migrations.ts";
import type { Check } from "../check.ts";

export const checkSchema: Check = ({ store }) => {
  const base = { id: "schema", name: "Database schema" } as const;
  const version = store.db.$client.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
  const detail = `version ${version} of ${MIGRATIONS.length}`;
  if (version === MIGRATIONS.length) return [{ ...base, state: "ok", detail }];
  return [
    { ...base, state: "bad", detail, todo: "Run this command with the version of Mailroom that the server runs." },
  ];
};
