/** Refuses a method that a known path does not have: 405 with Allow (RFC 9110 §15.5.6; rules: Errors). */
import { AppError } from "../base/errors.ts";

/** A refusal that names the methods of the path. */
export class MethodRefusal extends AppError {
  readonly allow: string;

  constructor(methods: readonly string[]) {
    const allow = methods.join(", ");
    super("bad_request", `The method is not for this path: use ${allow}`, { status: 405 });
    this.allow = allow;
  }
}

/** The methods of what can only be read. */
export const READING = ["GET", "HEAD"];

export const isReadRequest = ({ method }: Pick<Request, "method">): boolean => READING.includes(method);

export function methodNotAllowedResponse(methods: readonly string[]): Response {
  const { message, code, status, allow } = new MethodRefusal(methods);
  return Response.json({ error: message, code }, { status, headers: { allow, "x-content-type-options": "nosniff" } });
}

/**
 * Makes the function that gives the methods of a path; none for an unknown one. `routes`: all routes, with parameters as `:name`. A path that can be read can also be asked for with HEAD.
 */
export function createMethodFinder(routes: readonly { method: string; path: string }[]): (path: string) => string[] {
  const byLength = Map.groupBy(
    routes.map(({ method, path }) => ({ method, segments: path.split("/") })),
    ({ segments }) => segments.length,
  );
  const longest = Math.max(...byLength.keys());

  return (path) => {
    const given = path.split("/", longest + 1);
    const fits = (segment: string, i: number) => (segment.startsWith(":") ? given[i] !== "" : segment === given[i]);
    const methods = (byLength.get(given.length) ?? [])
      .filter(({ segments }) => segments.every(fits))
      .flatMap(({ method }) => (method === "GET" ? READING : method));
    return [...new Set(methods)].sort();
  };
}
