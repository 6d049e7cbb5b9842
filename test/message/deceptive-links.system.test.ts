/** How often links of real mail are said to deceive (test/harness/mail/labelled-mail.ts). */
import { expect, test } from "bun:test";
import { deceptiveLinks } from "../../src/message/deceptive-links.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { labelledNote, labelledPresent, readLabelled } from "../harness/mail/labelled-mail.ts";

test.skipIf(!labelledPresent)(
  `one message in two hundred of honest mail is warned of, all of them newsletters that count clicks${labelledNote}`,
  async () => {
    const warned = { ham: 0, spam: 0 };
    const all = { ham: 0, spam: 0 };
    for (const { isSpam, bytes } of readLabelled()) {
      const kind = isSpam ? "spam" : "ham";
      all[kind]++;
      const { html } = await parseMessage(bytes);
      if (html !== undefined && deceptiveLinks(html).length > 0) warned[kind]++;
    }
    expect(all).toEqual({ ham: 4_150, spam: 1_896 });
    // 21 and 20 on 2026-11-29.
    expect(warned.ham).toBeLessThanOrEqual(21);
    expect(warned.spam).toBeGreaterThanOrEqual(20);
  },
  120_000,
);
