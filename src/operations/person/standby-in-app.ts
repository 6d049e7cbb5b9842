/** State of a standby, for the app that it serves. A standby changes nothing. */
import { defineAppOperation } from "../operation.ts";

/** `standby` is null on a server. */
export const getStandby = defineAppOperation({
  name: "getStandby",
  audience: "visitor",
  method: "GET",
  path: "/standby",
  run({ standby }): { standby: StandbyView | null } {
    const state = standby();
    return {
      standby: state
        ? {
            behindSeconds: state.lagSeconds ?? null,
            heardSeconds: state.server?.heardSecondsAgo ?? null,
            url: state.server?.url ?? null,
          }
        : null,
    };
  },
});

export interface StandbyView {
  /** How old the mail may be that it shows; null until it knows. */
  behindSeconds: number | null;
  /** Seconds since the server was last heard. */
  heardSeconds: number | null;
  /** The server. */
  url: string | null;
}
