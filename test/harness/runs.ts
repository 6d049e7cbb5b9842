/** How often properties are tried: a run of the first tier alone (test/run.ts) tries the costly ones less often. */

const VARIABLE = "MAILROOM_TEST_FEWER_RUNS";
const SHARE = process.env[VARIABLE] === undefined ? 1 : 1 / 3;

/** The environment that makes runs fewer. */
export const FEWER_RUNS = { [VARIABLE]: "1" };

/** The runs of a costly property: `most`, or a third of them. */
export const runs = (most: number): number => Math.ceil(most * SHARE);
