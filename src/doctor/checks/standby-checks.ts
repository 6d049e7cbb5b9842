/** Checks of a standby: how it follows, and what it lacks for taking over. */
import { readdirSync } from "node:fs";
import { readStandby } from "../../replica/follow-replica.ts";
import { askStandbyState } from "../../replica/standby-control.ts";
import type { Check, Finding } from "../check.ts";

/** Ages that are worth knowing, in seconds. */
const LATE = 60;
const SILENT = 60;

export const checkStandby: Check = async ({ config: { data } }) => {
  const finding = (id: string, name: string, rest: Pick<Finding, "state" | "detail" | "todo">): Finding => ({
    id,
    name,
    ...rest,
  });
  const findings: Finding[] = [];
  if (readStandby(data)?.joinedAt === undefined) {
    findings.push(
      finding("standby-join", "Standby: keys", {
        state: "bad",
        detail: "it has not got the server's keys and certificates, and cannot take over without them",
        todo: "Run mailroom standby invite on the server, and here mailroom standby join CODE",
      }),
    );
  }
  const aside = readdirSync(data).filter((name) => name.startsWith("before-standby-"));
  if (aside.length > 0) {
    findings.push(
      finding("standby-aside", "Standby: kept aside", {
        state: "warning",
        detail: `the database of the server that this machine was is in ${aside.join(", ")}: it may have mail that never reached the replica`,
        todo: "Look at it with MAILROOM_DATA=… mailroom export, and remove the folder when nothing in it is missed",
      }),
    );
  }
  const state = await askStandbyState(data);
  const following = (rest: Pick<Finding, "state" | "detail" | "todo">) => finding("standby", "Standby", rest);
  if (!state) {
    return [...findings, following({ state: "bad", detail: "it does not run", todo: "Start mailroom standby" })];
  }
  const { reason, trouble, lagSeconds, epoch, server } = state;
  const of = server ? `${server.url}, epoch ${epoch ?? server.epoch}` : "no server";
  if (reason !== undefined || trouble !== undefined) {
    const detail =
      reason === undefined ? `the replica cannot be looked at: ${trouble}` : `it cannot be read: ${reason}`;
    return [...findings, following({ state: "bad", detail, todo: "Its log says more (journalctl -u mailroom)" })];
  }
  if (server && !server.released && server.heardSecondsAgo > SILENT) {
    const detail = `nothing was heard of the server ${server.url} for ${Math.round(server.heardSecondsAgo)} s`;
    return [...findings, following({ state: "warning", detail, todo: "If it is gone for good: mailroom promote" })];
  }
  const isLate = lagSeconds === undefined || lagSeconds > LATE;
  const age = lagSeconds === undefined ? "unknown" : `${lagSeconds} s`;
  return [...findings, following({ state: isLate ? "warning" : "ok", detail: `it follows ${of}; its lag is ${age}` })];
};
