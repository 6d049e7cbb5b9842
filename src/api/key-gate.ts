/**
 * Admits requests that carry an API key or the access token of a grant, over REST and MCP alike (rules: Order of refusals): the rate of the source,
 * the key, the rate of the key. Scope, shape and the rest need the operation, so perform.ts checks them.
 *
 * Invariant: for a source over its rate, the gate reads no key and asks nothing of the store. MCP is the exception,
 * since its clients end their session when HTTP refuses: the gate reads the key, and with a right one the refusal is an
 * MCP message.
 */
import type { Caller, Origin } from "../access/caller.ts";
import { findCallerByCredential, requireKeyNotPaused } from "../access/credentials.ts";
import { isKeyPolicyExpired, PolicyRefusal, policyAllowsClientAddress } from "../access/policy.ts";
import { createRateLimit, type Rate, type RateVerdict } from "../access/rate.ts";
import type { Slowdown } from "../access/slowdown.ts";
import { AppError } from "../base/errors.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { ipAddressSource } from "../net/ip.ts";
import type { Core } from "../store/core.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";

/** The person that an admitted request's key acts for. */
export interface Admitted {
  caller: Caller;
  /** Set when a rate is exceeded: MCP answers the request with this refusal. */
  refusal?: AppError;
}

/** A rate that a request counts against. */
export interface CountedRate extends Rate {
  of: "source" | "key";
}

export type Gate = ReturnType<typeof createKeyGate>;

/**
 * The token of RFC 6750 §2.1; the scheme in any case (RFC 9110 §11.1). Several Authorization headers arrive joined by
 * commas, which no token has: choosing one of them would be a guess.
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
  new AppError("unauthorized", "This API key is not valid: it is wrong, revoked or expired, or its creator left");

/** @throws AppError forbidden for a key that is paused, or may not be used from this address (rules: Policies) */
function requireUsable(caller: Caller): void {
  requireKeyNotPaused(caller);
  if (policyAllowsClientAddress(caller.policy ?? {}, caller.address)) return;
  throw new PolicyRefusal("forbidden", "This API key may not be used from this network");
}

/** `touchKey` notes the use of a key, at a time in epoch ms. */
export function createKeyGate(
  { db, store, options, now: clock, log }: Core,
  { slowdown, touchKey }: { slowdown: Slowdown; touchKey(keyId: string, now: number): void },
) {
  /**
   * The caller of a key, wherever it may be used from; undefined for one that is not valid.
   * @throws AppError server_error 503 while the workspace moves to another server
   */
  function findCallerByKey(authorization: string | null, address: string | undefined): Caller | undefined {
    const now = clock();
    const caller = findCallerByCredential(db, readKey(authorization), now);
    if (!caller || isKeyPolicyExpired(caller.policy ?? {}, now)) return undefined;
    requireWorkspaceServed(db, caller.workspaceId);
    return { ...caller, ...(address !== undefined && { address }) };
  }

  const cooldownSeconds = () => options.get("api.cooldownSeconds");
  const sources = createRateLimit(() => options.get("api.ipRequestsPerMinute"), cooldownSeconds);
  const keys = createRateLimit(() => options.get("api.keyRequestsPerMinute"), cooldownSeconds);

  function takeSource(source: string, tell: (rate: CountedRate) => void): AppError | undefined {
    const rate = sources.take(source, clock());
    tell({ ...rate, of: "source" });
    return refusalOver(rate, "from this address");
  }

  function admitSource(source: string, tell: (rate: CountedRate) => void): void {
    const refusal = takeSource(source, tell);
    if (refusal) throw refusal;
  }

  /** `refusal`: the refusal of the source, if it is over its rate. */
  async function readCaller(
    face: Origin["face"],
    address: string | undefined,
    authorization: string | null,
    tell: (rate: CountedRate) => void,
    refusal?: AppError,
  ): Promise<Admitted> {
    let found: Caller | undefined;
    try {
      found = findCallerByKey(authorization, address);
    } catch (error) {
      throw refusal ?? error;
    }
    if (found?.keyId === undefined) {
      const source = ipAddressSource(address);
      // What comes above the rate is refused whatever it has, and could fill the log.
      if (!refusal) log.info("sign-in failed", { over: face, account: null, source });
      await slowdown.failed(source);
      throw refusal ?? invalidKey();
    }
    const caller = { ...found, origin: { face, source: address } };
    const now = clock();
    const rate = keys.take(found.keyId, now);
    tell({ ...rate, of: "key" });
    const ofKey = refusalOver(rate, "with this API key");
    try {
      requireUsable(caller);
    } catch (error) {
      // Of a key over its rate nothing is noted, so that whoever stole it cannot fill the journal.
      if (error instanceof PolicyRefusal && !ofKey) {
        await store.note((tx) => addJournalEntry(tx, caller, { ids: [], outcome: error.code }, now));
      }
      throw error;
    }
    const longest = (ofKey?.retryAfter ?? 0) > (refusal?.retryAfter ?? 0) ? ofKey : refusal;
    if (longest) return { caller, refusal: longest };
    touchKey(found.keyId, now);
    return { caller };
  }

  return {
    /**
     * Admits a request that needs no key. `tell` gets the rate of the source, for the response's headers, also when the
     * request is refused.
     * @throws AppError rate_limited
     */
    admitSource,
    /**
     * Admits a request for the person that its key acts for. `address`: where it comes from, as canonicalIpAddress gives
     * it. `authorization` is the header as received. `tell` is called again with the key's rate once the key is known. A
     * source that keeps sending wrong keys waits for its refusal.
     * @throws AppError rate_limited, unauthorized; forbidden for a paused key, and one used from elsewhere
     */
    async admit(
      address: string | undefined,
      authorization: string | null,
      tell: (rate: CountedRate) => void,
    ): Promise<Caller> {
      admitSource(ipAddressSource(address), tell);
      const { caller, refusal } = await readCaller("rest", address, authorization, tell);
      if (refusal) throw refusal;
      return caller;
    },
    /**
     * Admits as `admit` does, but returns the refusal of a rate beside the caller when the key is right. Such a request
     * counts against both rates; a caller over both gets the refusal with the longer wait.
     * @throws AppError as admit
     */
    admitOrDefer: (
      address: string | undefined,
      authorization: string | null,
      tell: (rate: CountedRate) => void,
    ): Promise<Admitted> => readCaller("mcp", address, authorization, tell, takeSource(ipAddressSource(address), tell)),
    /**
     * Returns the caller of an admitted request as they are by now, after it has waited. Counts against no rate.
     * @throws AppError unauthorized when the key has become invalid, forbidden when it may not be used any more
     */
    readmit(authorization: string | null, { address }: Pick<Caller, "address">): Caller {
      const caller = findCallerByKey(authorization, address);
      if (caller === undefined) throw invalidKey();
      requireUsable(caller);
      return caller;
    },
  };
}
