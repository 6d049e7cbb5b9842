/** How commands reach the standby that runs on their data folder. */
import { join } from "node:path";
import { askProcess, listenToCommands } from "../base/control.ts";
import type { StandbyState } from "./follow-replica.ts";

const socketIn = (data: string): string => join(data, "standby.sock");

/** Answers until `stop`. `promote` does it, and says each step. */
export const listenForStandbyCommands = (
  data: string,
  { state, promote }: { state(): StandbyState; promote(tell: (step: string) => void): Promise<object> },
): { stop(): Promise<void> } =>
  listenToCommands(socketIn(data), { state: async () => state(), promote: (_, tell) => promote(tell) });

/** Asks the running standby of a data folder for its state; undefined if none runs there. */
export const askStandbyState = (data: string): Promise<StandbyState | undefined> =>
  askProcess<StandbyState>(socketIn(data), "state", { broken: "" }).catch(() => undefined);

/**
 * Has the running standby take over. Undefined if none runs. `tell` is called with each step.
 * @throws Error with its refusal
 */
export const askStandbyPromotion = (data: string, tell: (step: string) => void): Promise<object | undefined> =>
  askProcess(socketIn(data), "promote", {
    tell,
    broken: "the standby ended before it had taken over: its log says why; start it again, and it goes on",
  });
