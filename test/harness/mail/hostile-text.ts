/** Texts that take a careless parser time in proportion to the square of their length: one unit, repeated. */
import { cpuTime, expectLinear } from "../growth.ts";

const UNITS = [
  ..." \n\r\t\0a0=<>\"'()[]{}\\,;:.@?!&#%*+-_/|~",
  "\x01\n",
  "\u200d",
  "\ufe0f",
  "\u00a0",
  "é",
  "--\n",
  "--a: b\n",
  "X: y\n",
  "X:\n",
  " \n",
  "\n ",
  "a ",
  "a,",
  "a@",
  "a@b.example ",
  "<a@b.example>",
  "<a",
  '<"',
  '"\\',
  "()",
  "a:",
  "a=b;",
  "; a=b",
  "a.",
  "1 ",
  "=?",
  "=?a?q?",
  "=?utf-8?q?=41?= ",
  "=41",
  "=\n",
  "> ",
  "\n\n>",
  "On 1 Jan 2020 at 10:00 a@b.example wrote:\n",
  "0000 wrote:\n",
  "From: a\nTo: b\nDate: c\n",
  "_________________\n",
  "----- original message -----\n",
  "re: ",
  "(fwd) ",
  "[a] ",
  "https://",
  "https://a.example/ ",
  "550 5.1.1 ",
  "warning ",
  "bcc:\n",
  "-from:",
  'label:"',
  "Final-Recipient: rfc822; a@b.example\n\n",
] as const;

/** Pieces of hostile texts for parsers that read line by line. */
export const LINES = [
  "X: y\n",
  "X:\n",
  "\x01\n",
  " \n",
  "--\n",
  "--a: b\n",
  "\n--b\n\n",
  "--b--\n",
  "\r",
  "bcc:\n",
  "bcc:\na:\n",
];

/**
 * Checks that `run` takes time in proportion to its text, for each hostile text. The text stands between two letters, so that
 * trimming does not remove it. `sizes`: characters of each text.
 * @throws Error as expectLinear does
 */
export async function expectLinearText(
  run: (text: string) => unknown,
  sizes: readonly [number, number] = [8_000, 32_000],
  units: readonly string[] = UNITS,
): Promise<void> {
  await expectLinear({
    make: (size) => units.map((unit) => `a${unit.repeat(Math.ceil(size / unit.length))}b`),
    work: (texts) =>
      cpuTime(async () => {
        for (const text of texts) await run(text);
      }),
    sizes,
  });
}
