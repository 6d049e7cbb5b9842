/** The settings of the server, with defaults and meanings, for admins of the first workspace. */

import type { People } from "../../admin/people.ts";
import { AppError, ConfigError } from "../../base/errors.ts";
import { t } from "../../operations/json-schema.ts";
import type { Options, SettingRow } from "../../store/settings.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { ServerView, SettingView } from "../admin-views.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, workspaceOf } from "./asked.ts";

export interface ServerParts {
  store: Pick<Store, "transact">;
  people: Pick<People, "requireOperator">;
  options: Pick<Options, "list" | "find" | "set" | "reset" | "isPath">;
  searching(): ServerView["search"];
}

const readValue = bodyOf(t.Object({ value: t.String() }));

export function serverRoutes({ store, people, options, searching }: ServerParts): Route[] {
  const viewOf = ({ name, value, default: preset, description }: SettingRow): SettingView => ({
    ...{ name, value, description, default: preset },
    ...(options.isPath(name) && { commandLine: true }),
  });

  function change(asked: Asked, work: (tx: Tx, name: string) => void): SettingView {
    const name = asked.params.name ?? "";
    people.requireOperator(workspaceOf(asked));
    try {
      // Settings of programs to run and files to write are only for people with access to the machine.
      if (options.isPath(name)) {
        throw new AppError("forbidden", `${name} is set at the command line: mailroom settings set ${name} VALUE`);
      }
      store.transact((tx) => {
        asked.requireConfirmed(tx);
        work(tx, name);
      });
      return viewOf(options.find(name));
    } catch (error) {
      throw error instanceof ConfigError ? new AppError("bad_request", error.message) : error;
    }
  }

  return [
    {
      method: "GET",
      path: "/server",
      run(asked): ServerView {
        people.requireOperator(workspaceOf(asked));
        const { engine, reason } = searching();
        return { settings: options.list().map(viewOf), search: { engine, ...(reason !== undefined && { reason }) } };
      },
    },
    {
      // Body {value}, as in `mailroom settings set`.
      method: "PATCH",
      path: "/server/:name",
      async run(asked) {
        const { value } = await readValue(asked);
        return change(asked, (tx, name) => options.set(tx, name, value));
      },
    },
    {
      // Restores the default.
      method: "DELETE",
      path: "/server/:name",
      run: (asked) => change(asked, (tx, name) => options.reset(tx, name)),
    },
  ];
}
