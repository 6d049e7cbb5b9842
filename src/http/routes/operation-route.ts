/**
 * Operations as routes of the app: the functions that serve API keys (operations/perform.ts) perform them for the person
 * who is signed in.
 */
import { answerDownload } from "../../api/download.ts";
import { readInput, type Serving } from "../../api/rest.ts";
import { Done } from "../../operations/admin/common.ts";
import { type Download, isMediaType, type Operation } from "../../operations/operation.ts";
import { performerOf } from "../../operations/perform.ts";
import type { Route } from "../route.ts";
import { done } from "./asked.ts";

interface Answering {
  /** Below /app; the operation's own unless given. */
  path?: string;
  /** Makes the route's response; by default it has the operation's status and value. */
  respond?(answer: unknown): unknown;
}

export function operationRoute(operation: Operation, serving: Serving, answering: Answering = {}): Route {
  const perform = performerOf(operation, serving);
  return {
    method: operation.method,
    path: answering.path ?? operation.path,
    async run({ request, params, session, requireSession, requireConfirmed }) {
      const { status, answer } = await serving.bodies.within(session.caller.userId, (count) => {
        const read = () => readInput(operation, { request, params, count, requireSession });
        return perform(session.caller, read, requireConfirmed);
      });
      if (isMediaType(operation.response)) return answerDownload(answer as Download);
      return answering.respond ? answering.respond(answer) : Response.json(answer, { status });
    },
  };
}

/** An operation of administration. The response is 200, or 204 without a body if the operation gives none. */
export const settingsRoute = (operation: Operation, serving: Serving, answering: Answering = {}): Route =>
  operationRoute(operation, serving, {
    respond: (answer) => (operation.response === Done ? done() : answer),
    ...answering,
  });
