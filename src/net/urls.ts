/**
 * Places that somebody else chose, for requests over HTTP: a URL is read once while the excepted networks stay the same;
 * what its name leads to is asked at every attempt, and each address is checked there (destination.ts).
 */
import { isIP } from "node:net";
import type { Runtime } from "../base/runtime.ts";
import { type Destination, readDestination, resolveDestination } from "./destination.ts";

/** What a URL comes to. */
export interface Place<Terms> {
  readonly destination: Destination;
  /** What is the same for every request to it. */
  readonly terms: Terms;
  /** Checked, if the URL spells one out. */
  addresses: readonly string[] | undefined;
}

export interface Places<Terms> {
  /** @throws RefusedDestination */
  find(url: string): Place<Terms>;
  /** What it leads to at this moment. @throws RefusedDestination; otherwise what DNS gives */
  lookUp(place: Place<Terms>): Promise<readonly string[]>;
}

export interface PlacesParts {
  runtime: Pick<Runtime, "dns">;
  /** Excepted networks, asked for at each request (rules: Webhook destinations); the same array while they are. */
  allow(): readonly string[];
}

/** URLs kept as they were read. */
const MOST_PLACES = 1_000;
/** Addresses tried for one request. */
const MOST_TRIES = 8;

export function createPlaces<Terms>(
  { runtime, allow }: PlacesParts,
  termsOf: (destination: Destination) => Terms,
): Places<Terms> {
  const places = new Map<string, Place<Terms>>();
  let placesFor: readonly string[] = [];

  return {
    find(url) {
      const excepted = allow();
      if (excepted !== placesFor || places.size >= MOST_PLACES) places.clear();
      placesFor = excepted;
      let place = places.get(url);
      if (!place) {
        const destination = readDestination(url, excepted);
        place = { destination, terms: termsOf(destination), addresses: undefined };
        places.set(url, place);
      }
      return place;
    },
    async lookUp(place) {
      const addresses = await resolveDestination(place.destination, { dns: runtime.dns, allow: allow() });
      if (isIP(place.destination.host)) place.addresses = addresses;
      return addresses;
    },
  };
}

/** The addresses to be tried one after the other. `attempt`, from 1: each begins with another. */
export function inTurn(addresses: readonly string[], attempt: number): readonly string[] {
  if (addresses.length === 1) return addresses;
  const first = (attempt - 1) % addresses.length;
  return [...addresses.slice(first), ...addresses.slice(0, first)].slice(0, MOST_TRIES);
}

/** The code of an error of Bun's or of node's. */
export const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Nothing was sent yet: the next address may take the connection. */
export const NO_CONNECTION = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"]);
