import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { quotedText } from "../../src/message/composition.ts";
import { extractNewText } from "../../src/message/quoted-history.ts";

const QUOTE = "> old words\n>\n>> older words";

describe("history is left out", () => {
  const attributions = [
    "On Tue, 1 Jul 2003 at 10:52, Ann Example <ann@remote.example> wrote:",
    "On Tue, 1 Jul 2003 at 10:52, Ann Example\n<ann@remote.example> wrote:",
    "On Tue, 1 Jul 2003 at 10:52, Ann Example\n<ann@remote.example>\nwrote:",
    "Am 01.07.2003 um 10:52 schrieb Ann Example <ann@remote.example>:",
    "Am 01.07.2003 um 10:52 schrieb Ann Example:",
    "Le mar. 1 juil. 2003 à 10:52, Ann Example <ann@remote.example> a écrit :",
    "El mar, 1 jul 2003 a las 10:52, Ann Example (<ann@remote.example>) escribió:",
    "Il giorno mar 1 lug 2003 alle ore 10:52 Ann Example <ann@remote.example> ha scritto:",
    "Em ter., 1 de jul. de 2003 às 10:52, Ann Example <ann@remote.example> escreveu:",
    "Op di 1 jul 2003 om 10:52 schreef Ann Example <ann@remote.example>:",
    "Den tis 1 juli 2003 kl 10:52 skrev Ann Example <ann@remote.example>:",
    "ti 1. heinäk. 2003 klo 10.52 Ann Example (ann@remote.example) kirjoitti:",
    "wt., 1 lip 2003 o 10:52 Ann Example <ann@remote.example> napisał(a):",
    "út 1. 7. 2003 v 10:52 odesílatel Ann Example <ann@remote.example> napsal:",
    "вт, 1 июл. 2003 г. в 10:52, Ann Example <ann@remote.example> пишет:",
    "Ann Example <ann@remote.example>, 1 Tem 2003 Sal, 10:52 tarihinde şunu yazdı:",
    "Ann Example <ann@remote.example> 于2003年7月1日周二 10:52写道：",
    "2003年7月1日(火) 10:52 Ann Example <ann@remote.example>のメール:",
    "2003년 7월 1일 (화) 10:52, Ann Example <ann@remote.example>님이 작성:",
    "Ann Example wrote:",
  ];
  for (const attribution of attributions) {
    test(attribution, () => {
      const text = `Yes, gladly.\n\n-- \nBen\n\n${attribution}\n\n${QUOTE}\n`;
      const own = "Yes, gladly.\n\n-- \nBen";
      expect(extractNewText(text, "Re: x")).toEqual({ text: own, leftOut: text.length - own.length });
    });
  }

  const blocks: [string, string][] = [
    ["Outlook", "From: Ann\nSent: Tuesday\nTo: Ben\nSubject: x\n\nold words"],
    ["Outlook with bold names", "*From:* Ann\n*Sent:* Tuesday\n*To:* Ben\n*Subject:* x\n\nold words"],
    ["Outlook below a rule", `${"_".repeat(32)}\nFrom: Ann\nSent: Tuesday\nTo: Ben\nSubject: x\n\nold words`],
    ["Outlook in German", "Von: Ann\nGesendet: Dienstag\nAn: Ben\nBetreff: x\n\nold words"],
    ["Outlook in French", "De : Ann\nEnvoyé : mardi\nÀ : Ben\nObjet : x\n\nold words"],
    ["Outlook in Chinese", "发件人: Ann\n发送时间: 2003\n收件人: Ben\n主题: x\n\nold words"],
    ["a separator", "-----Original Message-----\nold words"],
    ["a separator in German", "-----Ursprüngliche Nachricht-----\nold words"],
    ["an attribution above unmarked text", "On 1 Jul 2003, at 10:52, Ann <ann@remote.example> wrote:\n\nold words"],
    ["marks alone", QUOTE],
  ];
  for (const [title, block] of blocks) {
    test(title, () => expect(extractNewText(`Yes.\n\n${block}`, "Re: x")).toMatchObject({ text: "Yes." }));
  }

  test("written by this server", () => {
    const quoted = quotedText({ from: { email: "ann@remote.example", name: "Ann" }, date: 0, text: "old\n\nwords" });
    expect(extractNewText(`Yes.\n\n${quoted}`, "Re: x").text).toBe("Yes.");
  });
});

describe("new text is kept", () => {
  const cases: [title: string, text: string, subject?: string][] = [
    ["no history", "Just words.\n\nFrom: here it goes on.\nThe end."],
    ["replies between the quotations", "> one?\nYes.\n> two?\nNo."],
    ["a reply below", `On Tue, 1 Jul 2003 at 10:52, Ann <a@remote.example> wrote:\n${QUOTE}\n\nNo.`],
    ["a sentence that tells who wrote", "On Monday Ann wrote:\nthe plan is bad.\nI agree with her."],
    [
      "a forwarded message",
      "FYI\n\n---------- Forwarded message ---------\nFrom: Ann\nDate: x\nTo: y\nSubject: z\n\nwords",
    ],
    ["a forward by its subject", "FYI\n\nFrom: Ann\nSent: x\nTo: y\nSubject: z\n\nwords", "Fwd: x"],
    ["headers of a bounced message", "It did not arrive:\n\nDate: x\nFrom: Ann\nTo: y\nSubject: z"],
    ["nothing but history", QUOTE],
    ["headers only", "From: Ann\nSent: x\nTo: y\nSubject: z\n\nwords"],
    ["empty", ""],
  ];
  for (const [title, text, subject = "Re: x"] of cases) {
    test(title, () => expect(extractNewText(text, subject)).toEqual({ text, leftOut: 0 }));
  }

  test("an interleaved reply loses at most the marked lines at its end", () => {
    expect(extractNewText("> one?\nYes.\n> two?\n> three?", "Re: x").text).toBe("> one?\nYes.");
  });

  test("the beginning is kept, and the count covers the rest", () => {
    const line = fc.constantFrom(
      "",
      "words",
      "> q",
      ">> q",
      "On 1 Jul 2003 10:52 a@b.example wrote:",
      "Ann wrote:",
      "From: a",
      "To: b",
      "Sent: c",
      "-- ",
      "_".repeat(20),
      "-----Original Message-----",
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 15 }), (lines) => {
        const text = lines.join("\n");
        const { text: own, leftOut } = extractNewText(text, "Re: x");
        expect(text.startsWith(own)).toBe(true);
        expect(leftOut).toBe(text.length - own.length);
        expect(own.trim() === "" && text.trim() !== "").toBe(false);
      }),
      { numRuns: 1_000 },
    );
  });
});
