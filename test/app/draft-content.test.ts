/** Recipients, signatures and texts in the composer (app/lib/draft-content.ts). */
import { describe, expect, test } from "bun:test";
import {
  isAddress,
  joinRecipients,
  listSendingDoubts,
  replaceSignature,
  shownName,
  splitRecipients,
  textToHtml,
} from "../../src/app/lib/draft-content.ts";

describe("recipients", () => {
  test.each([
    ["", [], ""],
    ["bob", [], "bob"],
    ["bob@a.test, ", ["bob@a.test"], ""],
    ["bob@a.test, cy", ["bob@a.test"], "cy"],
    ['"Doe, Jane" <jane@a.test>; Bo <bo@a.test>, x', ['"Doe, Jane" <jane@a.test>', "Bo <bo@a.test>"], "x"],
    ['"Doe, Ja', [], '"Doe, Ja'],
  ])("%j are the entered ones, and what is typed", (list, entries, typed) => {
    expect(splitRecipients(list)).toEqual({ entries, typed });
  });

  test("an address is there once, in the form in which it was entered first", () => {
    expect(joinRecipients(["Bo <bo@a.test>", "cy@a.test", "BO@a.test"], "d")).toBe("Bo <bo@a.test>, cy@a.test, d");
  });

  test.each([
    ["bo@a.test", true, "bo@a.test"],
    ["Bo <bo@a.test>", true, "Bo"],
    ['"Doe, \\"J\\"" <j@a.test>', true, 'Doe, "J"'],
    ["bo", false, "bo"],
    ["bo@", false, "bo@"],
    ["Bo bo@a.test", false, "Bo bo@a.test"],
    ["Bo <bo>", false, "Bo"],
  ])("%s is an address: %p, shown as %s", (entry, valid, name) => {
    expect([isAddress(entry), shownName(entry)]).toEqual([valid, name]);
  });
});

describe("a signature", () => {
  test("stands below the text, and is replaced by another", () => {
    const text = replaceSignature("Hello", "", "Ada");
    expect(text).toBe("Hello\n\n-- \nAda");
    expect(replaceSignature(text, "Ada", "The team")).toBe("Hello\n\n-- \nThe team");
    expect(replaceSignature(text, "Ada", "")).toBe("Hello");
  });

  test("that was edited stays", () => {
    expect(replaceSignature("Hello\n\n-- \nAda, on the road", "Ada", "The team")).toBe(
      "Hello\n\n-- \nAda, on the road",
    );
  });
});

describe("doubts about a message", () => {
  const FILE = "You mention an attachment, but no file is attached.";
  const SUBJECT = "The subject is empty.";
  const given = (more: object) => listSendingDoubts({ subject: "Plans", text: "Hello", files: 0, ...more });
  test.each([
    ["nothing that is missing", {}, []],
    ["an empty subject", { subject: " " }, [SUBJECT]],
    ["no subject where none is asked for", { subject: undefined }, []],
    ["a file that is mentioned", { text: "Please find attached the plan" }, [FILE]],
    ["a file that the subject mentions", { subject: "Plan attached" }, [FILE]],
    ["a file that is mentioned in German", { text: "Der Plan ist anbei." }, [FILE]],
    ["a file that is there", { text: "See the attachment", files: 1 }, []],
    ["a part of another word", { text: "He reattached it; detachment" }, []],
    ["what is quoted", { text: "Thanks\n\n> Please find attached" }, []],
    ["what is forwarded", { text: "FYI\n\n---------- Forwarded message ---------\nIt is attached" }, []],
    ["a signature", { text: "Thanks\n\n-- \nNo attachments, please" }, []],
    ["both", { subject: "", text: "attached" }, [SUBJECT, FILE]],
  ])("%s", (_, more, doubts) => {
    expect(given(more)).toEqual(doubts);
  });
});

test("plain text becomes HTML whose lines each have their own direction", () => {
  expect(textToHtml("a < b\n\nשלום")).toBe(
    '<div dir="auto">a &lt; b</div><div dir="auto"><br></div><div dir="auto">שלום</div>',
  );
});
