/** The part of negotiator that is used: its types in DefinitelyTyped are of a version before `preferred`. */
declare module "negotiator" {
  export default class Negotiator {
    constructor(request: { headers: { "accept-encoding": string } });
    /** Those of `available` that are accepted, the best first. */
    encodings<E extends string>(available: readonly E[], options: { preferred: readonly E[] }): E[];
  }
}
