/**
 * The way in for every request with a key, whichever face it comes to (rules: Order of refusals): the rate of its
 * source, the key, the rate of the key. Scope, shape and the rest need the operation: perform.ts goes on from there.
 *
 * Invariant: nothing is asked of the store, and no key is read, for a source that is over its rate; but over MCP, where
 * clients end their session at a refusal by HTTP, the key is, so that one that is right is refused in MCP's own words.
 */
import type { Caller } from "../access/caller.ts";
import { createRateLimit, type Rate, type RateVerdict } from "../access/rate.ts";
import type { Slowdown } from "../access/slowdown.ts";
import { AppError } from "../base/errors.ts";
import type { Options } from "../store/settings.ts";

export interface Admitted {
  caller: Caller;
  /** Over a rate: nothing may be done for them now. */
  refusal?: AppError;
}

export interface Gate {
  /**
   * Admits a request without asking for a key. `tell` learns the rate that the answer's headers carry, whatever the
   * answer will be. @throws AppError rate_limited.
   */
  admitSource(source: string, tell: (rate: Rate) => void): void;
  /**
   * Admits a request for the person its key acts for. `authorization` is the header as received. `tell` is called again
   * with the key's rate once the key is known. A source that keeps sending wrong keys waits for its refusal.
   * @throws AppError rate_limited, unauthorized.
   */
  admit(source: string, authorization: string | null, tell: (rate: Rate) => void): Promise<Caller>;
  /**
   * The same, but for somebody whose key is right a refusal by rate is returned, beside them, and not thrown. Such a request
   * counts against both rates, and whoever is over both is told the longer wait.
   */
  admitOrDefer(source: string, authorization: string | null, tell: (rate: Rate) => void): Promise<Admitted>;
  /**
   * The person again, as they are by now, for a request that was admitted and has waited since; counts nothing.
   * @throws AppError unauthorized when the key has become invalid.
   */
  readmit(authorization: string | null): Caller;
}

export interface GateParts {
  /** The person a key acts for; undefined for one that is wrong or revoked, or whose creator left. */
  findCaller(key: string): Caller | undefined;
  touchKey(keyId: string, now: number): void;
  slowdown: Slowdown;
  options: Pick<Options, "get">;
  /** Epoch ms. */
  now(): number;
}

/**
 * The token of RFC 6750 §2.1; the scheme in any case (RFC 9110 §11.1). Several Authorization headers arrive joined by
 * commas, which no token has: which of them was meant would be a guess.
 */
const BEARER = /^[ \t]*Bearer[ \t]+([A-Za-z0-9\-._~+/]+=*)[ \t]*$/i;

function readKey(authorization: string | null): string {
  if (authorization === null || authorization.trim() === "") {
    throw new AppError("unauthorized", "Send your API key in the header Authorization: Bearer <API_KEY>");
  }
  const key = BEARER.exec(authorization)?.[1];
  if (key === undefined) {
    throw new AppError("unauthorized", "The Authorization header must be one, and read: Bearer <API_KEY>");
  }
  return key;
}

function refusalOver(rate: RateVerdict, what: string): AppError | undefined {
  if (rate.retryAfter === undefined) return undefined;
  return new AppError(
    "rate_limited",
    `More than ${rate.limit} requests a minute ${what}: wait ${rate.retryAfter} seconds, as Retry-After says`,
    { retryAfter: rate.retryAfter },
  );
}

const invalidKey = () =>
  new AppError("unauthorized", "This API key is not valid: it is wrong or revoked, or its creator left");

export function createGate({ findCaller, touchKey, slowdown, options, now }: GateParts): Gate {
  const cooldownSeconds = () => options.get("api.cooldownSeconds");
  const sources = createRateLimit(() => options.get("api.ipRequestsPerMinute"), cooldownSeconds);
  const keys = createRateLimit(() => options.get("api.keyRequestsPerMinute"), cooldownSeconds);

  function takeSource(source: string, tell: (rate: Rate) => void): AppError | undefined {
    const rate = sources.take(source, now());
    tell(rate);
    return refusalOver(rate, "from this address");
  }

  function admitSource(source: string, tell: (rate: Rate) => void): void {
    const refusal = takeSource(source, tell);
    if (refusal) throw refusal;
  }

  /** `refusal`: of the source. */
  async function readCaller(
    source: string,
    authorization: string | null,
    tell: (rate: Rate) => void,
    refusal?: AppError,
  ): Promise<Admitted> {
    let caller: Caller | undefined;
    try {
      caller = findCaller(readKey(authorization));
    } catch (error) {
      throw refusal ?? error;
    }
    if (caller?.keyId === undefined) {
      await slowdown.failed(source);
      throw refusal ?? invalidKey();
    }
    const rate = keys.take(caller.keyId, now());
    tell(rate);
    const ofKey = refusalOver(rate, "with this API key");
    const longest = (ofKey?.retryAfter ?? 0) > (refusal?.retryAfter ?? 0) ? ofKey : refusal;
    if (longest) return { caller, refusal: longest };
    touchKey(caller.keyId, now());
    return { caller };
  }

  return {
    admitSource,
    async admit(source, authorization, tell) {
      admitSource(source, tell);
      const { caller, refusal } = await readCaller(source, authorization, tell);
      if (refusal) throw refusal;
      return caller;
    },
    admitOrDefer: (source, authorization, tell) => readCaller(source, authorization, tell, takeSource(source, tell)),
    readmit(authorization) {
      const caller = findCaller(readKey(authorization));
      if (caller === undefined) throw invalidKey();
      return caller;
    },
  };
}
