/** Sharing of costly programs between the test files of a process: test/run.ts turns it on, and cleans up. */

const VARIABLE = "MAILROOM_TEST_SHARING";
export const isSharing = process.env[VARIABLE] !== undefined;

/** The environment that turns it on. */
export const SHARING = { [VARIABLE]: "1" };
