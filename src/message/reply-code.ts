/**
 * Reply codes (RFC 5321 §4.2) and enhanced status codes (RFC 3463) in what servers say, wherever in a text they stand.
 * Linear.
 */

export interface ReplyCodes {
  /** As `550`. */
  code?: number;
  /** As `5.1.1`. */
  status?: string;
}

/** Together they are unmistakable: `550 5.1.1`, `550-5.1.1`, `550 #5.1.1`, `550: 5.1.1`. */
const BOTH = /(?<![\d.])([245]\d\d)[\s:-]{0,3}[([]?#?([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;
/** Alone where something is said: at the beginning of a line, or after a mark or a word that announces it. */
const CODE =
  /(?:^[ \t]{0,40}|[:;<>'"([={]\s{0,2}|(?:said|error|code|reply|replied|response|returned|with|status)\s)([45]\d\d)(?=[\s:-]{1,3}\S|['"\])},]|[ \t]{0,40}$)/im;
const STATUS = /(?<![\w.])([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;

/** The first codes in `text`; of two that belong together both. */
export function replyCodesIn(text: string): ReplyCodes {
  const both = BOTH.exec(text);
  if (both !== null && both[1]?.[0] === both[2]?.[0]) return { code: Number(both[1]), status: both[2] as string };
  const code = CODE.exec(text)?.[1];
  const status = STATUS.exec(text)?.[1];
  return { ...(code === undefined ? {} : { code: Number(code) }), ...(status === undefined ? {} : { status }) };
}

/** Whether a status says no more than its class: `5.0.0`, and what is no status at all. */
export const isUnspecific = (status: string | undefined): boolean => status === undefined || /\.0\.0+$/.test(status);
