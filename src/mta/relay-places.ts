/** How many lanes the relay has (relay.ts): what their connections take of the open files follows from it (descriptors.ts). */

/** Lanes at work in each kind of place. `spare`: for mail to this server itself, while all the shared ones are taken. */
export const PLACES = { shared: 50, kept: 10, slow: 20, spare: 4 };
/** Lanes that have waited for their server for a while, and do not count any more. */
export const MOST_WAITING = 100;
