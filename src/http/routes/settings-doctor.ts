/** The doctor's findings, and having it look: for the admins of the first workspace, as all that concerns the server. */

import type { People } from "../../admin/people.ts";
import type { Doctor } from "../../doctor/doctor.ts";
import type { Look } from "../../doctor/watch.ts";
import type { DoctorView, LookView } from "../admin-views.ts";
import type { Asked, Route } from "../route.ts";
import { isoOf, workspaceOf } from "./asked.ts";

export interface DoctorParts {
  people: Pick<People, "requireOperator">;
  doctor: Pick<Doctor, "examine" | "known">;
}

const lookOf = (look: Look | undefined): LookView | null =>
  look === undefined ? null : { ...look, at: isoOf(look.at) };

export function doctorRoutes({ people, doctor }: DoctorParts): Route[] {
  async function view(): Promise<DoctorView> {
    const { running = null, last, daily } = await doctor.known();
    return { running, last: lookOf(last), daily: lookOf(daily) };
  }
  const requireOperator = (asked: Asked): void => people.requireOperator(workspaceOf(asked));

  return [
    {
      method: "GET",
      path: "/doctor",
      run(asked) {
        requireOperator(asked);
        return view();
      },
    },
    {
      // Begins an examination, unless one is under way. Some checks wait for other servers: GET says how far it is.
      method: "POST",
      path: "/doctor",
      async run(asked) {
        requireOperator(asked);
        void doctor.examine();
        return Response.json(await view(), { status: 202 });
      },
    },
  ];
}
