/** The settings of the server with their defaults and meanings (rules: Settings), and what its doctor finds. */
import { AppError, ConfigError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import type { Known } from "../../doctor/doctor.ts";
import type { Core } from "../../store/core.ts";
import type { SettingRow } from "../../store/settings.ts";
import type { Tx } from "../../store/store.ts";
import { defineAppOperation, type OperatorContext } from "../operation.ts";
import { strictBody } from "../shared-schemas.ts";

/** `commandLine`: the setting can only be changed at the command line. */
const toSettingView = ({ options }: Core, { name, value, default: preset, description }: SettingRow) => ({
  name,
  value,
  default: preset,
  description,
  ...(options.isPath(name) && { commandLine: true as const }),
});

export const getServer = defineAppOperation({
  name: "getServer",
  audience: "operator",
  method: "GET",
  path: "/server",
  run(context) {
    const { engine, reason } = context.searching();
    return {
      settings: context.core.options.list().map((row) => toSettingView(context.core, row)),
      search: { engine, ...(reason !== undefined && { reason }) },
    };
  },
});

/** @throws AppError forbidden for a path, which only people with access to the machine may set; bad_request */
function change(context: OperatorContext, name: string, work: (tx: Tx) => void) {
  const { core, act, requireConfirmed } = context;
  try {
    if (core.options.isPath(name)) {
      throw new AppError("forbidden", `${name} is set at the command line: mailroom settings set ${name} VALUE`);
    }
    act((tx) => {
      requireConfirmed(tx);
      work(tx);
    });
    return toSettingView(core, core.options.find(name));
  } catch (error) {
    throw error instanceof ConfigError ? new AppError("bad_request", error.message) : error;
  }
}

const BY_NAME = t.Object({ name: t.String() });

/** `value` as in `mailroom settings set`. */
export const setSetting = defineAppOperation({
  name: "setSetting",
  audience: "operator",
  method: "PATCH",
  path: "/server/:name",
  params: BY_NAME,
  body: strictBody({ value: t.String() }),
  run: (context, { params: { name }, body: { value } }) =>
    change(context, name, (tx) => context.core.options.set(tx, name, value)),
});

/** Restores the default. */
export const resetSetting = defineAppOperation({
  name: "resetSetting",
  audience: "operator",
  method: "DELETE",
  path: "/server/:name",
  params: BY_NAME,
  run: (context, { params: { name } }) => change(context, name, (tx) => context.core.options.reset(tx, name)),
});

const toLookView = (look: Known["last"]) => (look === undefined ? null : { ...look, at: toIsoTime(look.at) });

/**
 * Tells what the doctor knows without a new examination: the progress of one under way, the findings of the last one
 * since the server was started, and those of the daily one.
 */
async function known({ doctor }: OperatorContext) {
  const { running = null, last, daily } = await doctor.known();
  return { running, last: toLookView(last), daily: toLookView(daily) };
}

export const getFindings = defineAppOperation({
  name: "getFindings",
  audience: "operator",
  method: "GET",
  path: "/doctor",
  run: known,
});

/**
 * Begins an examination, unless one is under way. Some checks wait for other servers; `getFindings` tells the progress.
 */
export const examineServer = defineAppOperation({
  name: "examineServer",
  audience: "operator",
  method: "POST",
  path: "/doctor",
  onStandby: true,
  success: 202,
  run(context) {
    void context.doctor.examine();
    return known(context);
  },
});
