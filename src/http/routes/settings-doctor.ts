/** The doctor's findings, and a request to examine. Only admins of the first workspace have them. */

import type { People } from "../../admin/people.ts";
import type { Doctor } from "../../doctor/doctor.ts";
import type { Look } from "../../doctor/watch.ts";
import { isoOf } from "../../operations/admin/common.ts";
import type { DoctorView, LookView } from "../admin-views.ts";
import type { Asked, Route } from "../route.ts";
import { workspaceOf } from "./asked.ts";

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
      // Begins an examination, unless one is under way. Some checks wait for other servers; GET tells the progress.
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
