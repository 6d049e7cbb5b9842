/** Whether the files of a process share what is costly to start, and leave it behind: test/run.ts says so, and tidies up. */

const VARIABLE = "MAILROOM_TEST_SHARING";
export const isSharing = process.env[VARIABLE] !== undefined;

/** The environment that says it. */
export const SHARING = { [VARIABLE]: "1" };
