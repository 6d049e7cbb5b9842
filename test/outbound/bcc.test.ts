import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import { bccDetector } from "../../src/outbound/bcc.ts";

const RECIPIENTS = [
  { recipient: "carol@remote.example", field: "to" },
  { recipient: "dave@mail.partner.example", field: "cc" },
  { recipient: "Grace.Hopper+x@Hidden.example", field: "bcc" },
  { recipient: "eve@remote.example", field: "bcc" },
  { recipient: "carol@example.test", field: "bcc" },
  { recipient: "ivan@xn--bcher-kva.example", field: "bcc" },
  { recipient: "frank@partner.example", field: "bcc" },
] as const;

describe("a reply", () => {
  const namesBcc = bccDetector(RECIPIENTS, "example.test");
  test.each<[reply: string, names: boolean]>([
    ["550 5.1.1 <carol@remote.example>: no such user", false],
    ["550 5.7.1 mail from example.test is not welcome at remote.example", false],
    ["550 5.1.1 eleven nobody elsewhere evening", false],
    ["452 4.2.2 mx1.mail.partner.example: mailbox of dave is full", false],
    ["550 5.1.1 <grace.hopper+x@hidden.example>: no such user", true],
    ["550 5.1.1 GRACE.HOPPER+X@HIDDEN.EXAMPLE", true],
    ["550 rejected for grace.hopper", true],
    ["550 [Grace.Hopper+x]", true],
    ["550 see https://mx7.hidden.example/why?id=7", true],
    ["550 bounce+grace.hopper=hidden.example@list.example", true],
    ["550 see https://list.example/?to=x%40hidden.example", true],
    ["550 hidden.example.", true],
    ["550 nothidden.example", false],
    ["550 hidden.example.com", false],
    ["550 5.1.1 eve: unknown", true],
    ["550 5.1.1 eve@remote.example", true],
    ["550 5.1.1 carol@example.test", true],
    ["550 5.1.1 carol=example.test", true],
    ["550 mx.bücher.example refuses", true],
    ["550 mx.xn--bcher-kva.example refuses", true],
    ["550 mx.partner.example refuses", true],
    ["550 mx.mail.partner.example refuses", false],
    ["", false],
  ])("%j", (reply, names) => {
    expect(namesBcc(reply)).toBe(names);
  });

  test("about a message without Bcc never names a Bcc recipient", () => {
    const shown = RECIPIENTS.filter(({ field }) => field !== "bcc");
    expect(bccDetector(shown, "example.test")("grace.hopper+x@hidden.example")).toBe(false);
  });

  test("a local part may be quoted, or hold characters with another meaning elsewhere", () => {
    const odd = ['"grace hopper"@hidden.example', "a.*b$@hidden.example", '""@hidden.example'];
    const names = bccDetector(
      odd.map((recipient) => ({ recipient, field: "bcc" })),
      "example.test",
    );
    expect(["550 grace hopper is unknown", "550 a.*b$", "550 nobody"].map(names)).toEqual([true, true, false]);
  });

  test("that is too long to be searched counts as naming one", () => {
    expect(namesBcc("x".repeat(2 * 1024 * 1024))).toBe(true);
  });
});

test("an address is found wherever it stands between other words", () => {
  const local = fc.stringMatching(/^[a-z0-9][a-z0-9._+-]{0,20}[a-z0-9]$/).filter((text) => !text.includes(".."));
  const domain = fc.stringMatching(/^[a-z0-9]{1,12}\.example$/);
  const words = fc
    .array(fc.constantFrom("550", "5.1.1", "<", ">", ":", "refused", "=", "\n", "\u00fc", "(x)"))
    .map((list) => list.join(" "));
  fc.assert(
    fc.property(local, domain, words, words, fc.boolean(), (name, host, before, after, loud) => {
      const address = `${name}@${host}`;
      const text = `${before} ${loud ? address.toUpperCase() : address} ${after}`;
      const others = [{ recipient: "carol@remote.example", field: "to" }] as const;
      expect(bccDetector([...others, { recipient: address, field: "bcc" }], "sender.test")(text)).toBe(true);
      expect(bccDetector([...others, { recipient: address, field: "cc" }], "sender.test")(text)).toBe(false);
    }),
  );
});

test("hostile texts take linear time", () => {
  const namesBcc = bccDetector(RECIPIENTS, "example.test");
  const texts = [".".repeat(64_000), "a.".repeat(32_000), "eve".repeat(20_000), "=".repeat(64_000), "@".repeat(64_000)];
  expect(texts.map(namesBcc)).toEqual([false, false, false, false, false]);
});

test("a text takes the same steps whether it names a Bcc recipient or nobody", () => {
  const namesBcc = bccDetector(RECIPIENTS, "example.test");
  const lookups = spyOn(Set.prototype, "has");
  const searches = spyOn(String.prototype, "indexOf");
  /** Steps for a list of hosts behind a guess: the hosts looked up, and the searches for words. */
  const stepsOf = (guess: string): [names: boolean, looked: number, searched: number] => {
    lookups.mockClear();
    searches.mockClear();
    const names = namesBcc(`550 ${guess}\n${"mx.elsewhere.example\n".repeat(1_000)}`);
    return [names, lookups.mock.calls.length, searches.mock.calls.length];
  };
  try {
    const [, looked, searched] = stepsOf("fay@nobody.example");
    expect(stepsOf("fay@hidden.example")).toEqual([true, looked, searched]);
    // One search more, for the word behind the one that was found.
    expect(stepsOf("eve@nobody.example")).toEqual([true, looked, searched + 1]);
  } finally {
    lookups.mockRestore();
    searches.mockRestore();
  }
});
