/** Links whose words name another host than they lead to, and hosts that may pose as others. */
import { describe, expect, test } from "bun:test";
import { deceptiveLinks } from "../../src/message/deceptive-links.ts";
import { createHtmlBudget } from "../../src/message/markup.ts";
import { isHostName, mayBeLookalikeHost, readHost, registrableDomain } from "../../src/message/organization.ts";
import { expectLinear } from "../harness/growth.ts";

const link = (words: string, url: string) => `<p>Hello. <a class="button" href="${url}">${words}</a></p>`;
const found = (words: string, url: string) => deceptiveLinks(link(words, url));

describe("a link deceives whose words", () => {
  const DECEPTIVE: [what: string, words: string, url: string, said: string, leadsTo: string][] = [
    ["are another URL", "https://bank.example/login", "https://evil.example/", "bank.example", "evil.example"],
    ["have one among others", "Go to https://bank.com/x, please", "http://evil.com", "bank.com", "evil.com"],
    ["name a host by www.", "WWW.Bank.COM", "http://evil.com/www.bank.com", "www.bank.com", "evil.com"],
    ["are the name of a host", "bank.com/login", "https://bank.com.evil.net", "bank.com", "bank.com.evil.net"],
    ["name the site of a neighbour", "ada.github.io", "https://eve.github.io", "ada.github.io", "eve.github.io"],
    ["have a host before an @", "https://bank.com@evil.com/", "https://evil.com", "bank.com", "evil.com"],
    ["have hidden letters", 'b<span style="display:none">x</span>ank.com', "https://evil.com", "bank.com", "evil.com"],
    ["have letters of no width", "ba\u200bnk.c\u00adom", "https://evil.com", "bank.com", "evil.com"],
    ["have full-width letters and dots", "ｂａｎｋ．com", "https://evil.com", "bank.com", "evil.com"],
    ["are in other elements", "<b>bank</b><i>.com</i>", "https://evil.com", "bank.com", "evil.com"],
    ["look like where it leads", "paypal.com", "https://paypa1.com", "paypal.com", "paypa1.com"],
    ["name a host, and lead to an address", "http://bank.com", "http://192.0.2.1/bank.com", "bank.com", "192.0.2.1"],
  ];
  test.each(DECEPTIVE)("%s", (_, words, url, said, leadsTo) => expect(found(words, url)).toEqual([{ said, leadsTo }]));

  test("is told once, and the first ones are told", () => {
    const many = Array.from({ length: 30 }, (_, n) => link(`bank${n >> 1}.com`, "https://evil.com")).join("");
    expect(deceptiveLinks(many).map(({ said }) => said)).toEqual([0, 1, 2, 3, 4].map((n) => `bank${n}.com`));
  });
});

describe("a link does not deceive whose words", () => {
  const HONEST: [what: string, words: string, url: string][] = [
    ["are a sentence, behind which clicks are counted", "Read our offer of the week", "https://click.mailer.net/x?y=z"],
    ["begin a sentence with the name of a firm", "Booking.com is here for you", "https://click.mailer.net/x"],
    ["name the host", "https://bank.com/a", "https://bank.com/b"],
    ["name another host of the organisation", "www.bank.co.uk", "https://login.bank.co.uk/x"],
    ["name it in its own letters", "Bücher.example", "https://xn--bcher-kva.example"],
    ["are cut", "https://www.bank.com/very/long/…", "https://www.bank.com/very/long/path"],
    ["end a sentence", "(see https://bank.com.)", "https://bank.com"],
    ["are the name of a file", "README.md", "https://code.example/README.md"],
    ["are a number", "3.14", "https://code.example"],
    ["are an address", "ann@bank.com", "https://evil.com"],
    ["lead to an address", "www.bank.com", "mailto:ann@evil.com"],
    ["are nothing", '<img src="x.png" alt="www.bank.com">', "https://evil.com"],
    [
      "lead by a service that checks links",
      "https://bank.com",
      "https://eur01.safelinks.protection.outlook.com/?url=x",
    ],
    ["lead nowhere", "https://bank.com", "https://[oops"],
  ];
  test.each(HONEST)("%s", (_, words, url) => expect(found(words, url)).toEqual([]));
});

test("a host that mixes alphabets, or has look-alikes alone, may pose as another; one in its own script does not", () => {
  expect(found("Sign in", "https://xn--paypl-7ve.com/")).toEqual([{ leadsTo: "xn--paypl-7ve.com" }]);
  const poses = (host: string) => mayBeLookalikeHost(readHost(host) ?? "");
  expect(["аррӏе.com", "раypal.com", "gοogle.com"].map(poses)).toEqual([true, true, true]);
  expect(["москва.рф", "почта.com", "bücher.de", "日本語.jp", "ελλάδα.gr"].map(poses)).toEqual(Array(5).fill(false));
});

test("organisations are those of the Public Suffix List", () => {
  expect(
    ["a.b.bank.co.uk", "ada.github.io", "192.0.2.1", "localhost", "x.remote.example"].map(registrableDomain),
  ).toEqual([...["bank.co.uk", "ada.github.io", "192.0.2.1", "localhost", "remote.example"]]);
  expect(["bank.com", "bank.example", "setup.py", "file.zip", "node.js", "co.uk"].map(isHostName)).toEqual([
    ...[true, true, false, false, false, false],
  ]);
});

test("work grows with the HTML, also for links without end and words without end", async () => {
  const shapes: ((size: number) => string)[] = [
    (size) => link("https://bank.com ", "https://evil.com").repeat(size),
    (size) => `<a href="https://evil.com">`.repeat(size * 3),
    (size) => link(`https://b${".".repeat(80 * size)}`, "https://evil.com"),
    (size) => link("x", `https://${"a.".repeat(40 * size)}com`),
  ];
  for (const make of shapes) {
    await expectLinear({
      ...{ make, sizes: [200, 800] },
      steps(html) {
        const budget = createHtmlBudget();
        deceptiveLinks(html, budget);
        return budget.spent;
      },
    });
  }
});
