/** The document that a message is shown in: images, colours, folded history, text. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type FramedMessage, renderMessageDocument } from "../../src/message/frame.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { dangersIn } from "../harness/mail/dangers.ts";

const addresses = {
  attachment: (id: string) => `/app/attachments/${id}/preview`,
  remote: (url: string) => `/app/images?url=${encodeURIComponent(url)}&signature=s`,
};
const blocked = { ...addresses, remote: undefined };

/** Returns the content of main. */
function bodyOf(
  message: Partial<FramedMessage>,
  images: Parameters<typeof renderMessageDocument>[1] = blocked,
): string {
  const document = renderMessageDocument({ subject: "Hello", text: "", attachments: [], ...message }, images);
  return /<main>(.*)<\/main>/s.exec(document)?.[1] ?? "none";
}

const bodyOfHtml = (html: string, images = blocked as Parameters<typeof renderMessageDocument>[1]): string =>
  bodyOf({ html: sanitizeHtml(html) }, images);

describe("images", () => {
  const attachments = [{ id: "att_1", contentId: "logo@a" }, { id: "att_2", contentId: "100% & <b>" }, { id: "att_3" }];
  const cases: [name: string, html: string, shown: string][] = [
    ["an attached one", '<img src="cid:logo@a">', '<img src="/app/attachments/att_1/preview" />'],
    [
      "an attached one, escaped",
      '<img src="cid:100%25%20&amp;%20<b>">',
      '<img src="/app/attachments/att_2/preview" />',
    ],
    ["one not attached", '<img src="cid:other" alt="Logo">', '<img alt="Logo" />'],
    ["of no valid escape", '<img src="cid:%E0%A4%A">', "<img/>"],
    ["a small one in the mail", '<img src="data:image/gif;base64,R0lG">', '<img src="data:image/gif;base64,R0lG" />'],
  ];
  for (const [name, html, shown] of cases) {
    test(name, () => expect(bodyOf({ html: sanitizeHtml(html), attachments })).toBe(shown));
  }

  const REMOTE = '<p>a</p><img alt="A" src="https://x.example/p.png?a=1&amp;sig=%20&quot;<">';

  test("remote images are left out and marked until the reader asks for them", () => {
    expect(bodyOfHtml(REMOTE)).toBe('<p>a</p><img alt="A" data-blocked="" />');
  });

  test("the number of remote images is limited", () => {
    const shown = bodyOfHtml('<img src="https://x.example/p.png">'.repeat(1_001), addresses);
    expect(shown.match(/ src="/g)?.length).toBe(1_000);
    expect(shown).toEndWith('<img data-blocked="" />');
  });

  test("remote images come from this server, which gets their whole URL", () => {
    const src = /src="([^"]*)"/.exec(bodyOfHtml(REMOTE, addresses))?.[1]?.replaceAll("&amp;", "&") ?? "";
    expect(src).toEndWith("&signature=s");
    expect(new URLSearchParams(src.replace(/.*\?/, "")).get("url")).toBe('https://x.example/p.png?a=1&sig=%20"<');
  });
});

describe("links of spam", () => {
  const cases: [name: string, message: Partial<FramedMessage>, shown: string][] = [
    [
      "in HTML tell where they would lead",
      { html: sanitizeHtml('<a href="https://x.example/?a=1&amp;b=&quot;&lt;">Go</a>') },
      'title="https://x.example/?a=1&amp;b=&quot;&lt;"',
    ],
    ["in text are text", { text: "See https://x.example/ now" }, "See https://x.example/ now"],
    ["in quoted text are text", { text: "New\n\n> https://x.example/", subject: "Re: a" }, "https://x.example/"],
  ];
  for (const [name, message, shown] of cases) {
    test(name, () => {
      const body = bodyOf({ ...message, links: false });
      expect(body).toContain(shown);
      expect(body).not.toContain("href");
      expect(bodyOf(message)).toContain(" href=");
    });
  }
});

describe("colours", () => {
  const DARK = "<style>@media (prefers-color-scheme: dark){p{color:#eee}}</style>";
  const cases: [html: string, scheme: string][] = [
    ["<p>plain, of any color: red</p>", "light dark"],
    ['<p style="border-color:red;font-size:9px">x</p>', "light dark"],
    ['<p style="font-size:9px;color:#222">x</p>', "only light"],
    ['<td bgcolor="#ffffff">x</td>', "only light"],
    ['<font color="red">x</font>', "only light"],
    ['<div style="background:#fff url(x)">x</div>', "only light"],
    ["<style>p{margin:0}</style><p>x</p>", "light dark"],
    ["<style>p{color:red}</style><p>x</p>", "only light"],
    ["<style>@media (prefers-color-scheme: dark){p{color:red}}</style><p>x</p>", "only light"],
    [`<meta content="light dark" name=color-scheme>${DARK}<p>x</p>`, "light dark"],
    [`<style>:root{color-scheme:light dark}</style>${DARK}<p>x</p>`, "light dark"],
  ];
  for (const [html, scheme] of cases) {
    test(html, () => {
      const document = renderMessageDocument(
        { subject: "", text: "", html: sanitizeHtml(html), attachments: [] },
        blocked,
      );
      expect(document).toContain(`{color-scheme:${scheme}}`);
    });
  }
});

const OPEN = "<details><summary>Quoted text</summary>";
const CLOSED = "</details>";
const BORDER = "margin:0 0 0 .8ex;border-left:1px #ccc solid;padding-left:1ex";

describe("history is folded", () => {
  test("in mail with style sheets", () => {
    const quotation = `On Mon, Jan 5, 2026 at 9:00 AM Ann &lt;ann@a.example&gt; wrote:<br><blockquote style="${BORDER}">Old</blockquote>`;
    const html = sanitizeHtml(`<style>.q,p::after{color:#333}</style><p>New</p><div class="q">${quotation}</div>`);
    const document = renderMessageDocument({ subject: "", text: "", html, attachments: [] }, blocked);
    expect(document).toContain(`${OPEN}<blockquote`);
    expect(document).toContain(`Old</blockquote>${CLOSED}</div></div>`);
  });

  const cases: [name: string, html: string, shown: string][] = [
    [
      "of Gmail",
      `<div>New</div><div><div>On Mon, Jan 5, 2026 at 9:00 AM Ann &lt;ann@a.example&gt; wrote:<br /></div><blockquote style="${BORDER}">Old</blockquote></div>`,
      `<div>New</div><div><div>On Mon, Jan 5, 2026 at 9:00 AM Ann &lt;ann@a.example&gt; wrote:<br /></div>${OPEN}<blockquote style="${BORDER}">Old</blockquote>${CLOSED}</div>`,
    ],
    [
      "of Thunderbird",
      "<p>New</p><div>Am 05.01.26 um 09:00 schrieb Ann:<br /></div><blockquote>Old<blockquote>Older</blockquote></blockquote><p>\u00a0</p>",
      `<p>New</p><div>Am 05.01.26 um 09:00 schrieb Ann:<br /></div>${OPEN}<blockquote>Old<blockquote>Older</blockquote></blockquote><p>\u00a0</p>${CLOSED}`,
    ],
    [
      "of Apple, with what holds it",
      "New<div><br /><blockquote><div>On 5 Jan 2026, at 09:00, Ann wrote:</div><div>Old</div></blockquote></div>",
      `New${OPEN}<div><br /><blockquote><div>On 5 Jan 2026, at 09:00, Ann wrote:</div><div>Old</div></blockquote></div>${CLOSED}`,
    ],
    [
      "of Outlook, to the end of its part",
      '<div><p>New</p><div><div style="border:none;border-top:solid #E1E1E1 1.0pt"><p><b>From:</b> Ann<br /><b>Sent:</b> Monday<br /><b>To:</b> Ben<br /><b>Subject:</b> Hello</p></div></div><p>Old</p></div><p>List</p>',
      `<div><p>New</p>${OPEN}<div><div style="border:none;border-top:solid #E1E1E1 1.0pt"><p><b>From:</b> Ann<br /><b>Sent:</b> Monday<br /><b>To:</b> Ben<br /><b>Subject:</b> Hello</p></div></div><p>Old</p>${CLOSED}</div><p>List</p>`,
    ],
    [
      "of Outlook on the web",
      "<div>New</div><hr /><div><font><b>Von:</b> Ann<br /><b>Gesendet:</b> Montag<br /><b>An:</b> Ben</font></div><div>Old</div>",
      `<div>New</div><hr />${OPEN}<div><font><b>Von:</b> Ann<br /><b>Gesendet:</b> Montag<br /><b>An:</b> Ben</font></div><div>Old</div>${CLOSED}`,
    ],
    [
      "inside a cell, and the table stays whole",
      `<table><tbody><tr><td>New</td><td><blockquote style="${BORDER}">Old</blockquote></td></tr></tbody></table>`,
      `<table><tbody><tr><td>New</td><td>${OPEN}<blockquote style="${BORDER}">Old</blockquote>${CLOSED}</td></tr></tbody></table>`,
    ],
  ];
  for (const [name, html, shown] of cases) {
    test(name, () => {
      expect(sanitizeHtml(html)).toBe(html);
      expect(bodyOf({ html })).toBe(shown);
    });
  }
});

describe("stays open", () => {
  const quotation = `<blockquote style="${BORDER}">Old</blockquote>`;
  const cases: [name: string, html: string, subject?: string][] = [
    ["what is all there is", `<p>\u00a0</p>${quotation}`],
    ["what is answered below", `<p>New</p>${quotation}<p>Answer</p>`],
    ["what has an image below", `<p>New</p>${quotation}<img />`],
    ["a quotation of a poem", "<p>As the poet says</p><blockquote>Roses</blockquote>"],
    ["a line before a signature", "<p>New</p><hr /><div>From: the team</div>"],
    ["a forwarded message", `<p>See below</p>${quotation}`, "Fwd: Hello"],
    ["nothing", ""],
  ];
  for (const [name, html, subject = "Re: Hello"] of cases) {
    test(name, () => expect(bodyOf({ html, subject })).toBe(html));
  }
});

describe("plain text", () => {
  test("is escaped, with links for its URLs and folded history", () => {
    const text = "See <https://x.example/?a=1&b=2>, (http://y.example/z).\n\nOn 5 Jan 2026, Ann wrote:\n> Old";
    const link = (url: string) => `<a href="${url}" target="_blank" rel="noopener noreferrer nofollow">${url}</a>`;
    const pre = (html: string) => `<div style="white-space:pre-wrap">${html}</div>`;
    expect(bodyOf({ text })).toBe(
      pre(`See &lt;${link("https://x.example/?a=1&amp;b=2")}&gt;, (${link("http://y.example/z")}).`) +
        `${OPEN}${pre("On 5 Jan 2026, Ann wrote:\n&gt; Old")}${CLOSED}`,
    );
  });
});

test("HTML that is empty after sanitising is replaced by the text", () => {
  expect(bodyOf({ html: sanitizeHtml("<style>p{}</style>"), text: "Hello" })).toContain(">Hello</div>");
});

test("a long text is cut to its beginning", () => {
  const shown = bodyOf({ text: `${"x".repeat(999_999)}\u{1f600}${"y".repeat(1_000_000)}` });
  expect(shown).toBe(`<div style="white-space:pre-wrap">${"x".repeat(999_999)}\ufffd…</div>`);
});

test("any markup and text gives a harmless document that keeps the text", () => {
  const piece = fc.constantFrom(
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<blockquote style='border-left:1px solid'>",
    "</blockquote>",
    "<hr>",
    "<table><tr><td>",
    "</table>",
    "<img src='https://x.example/?&quot;&gt;",
    "'>",
    "<img src='cid:a\"b'>",
    "</main>",
    "From: a<br>Sent: b<br>To: c",
    "On 5 Jan 2026 Ann wrote:",
    "</details>",
    "<a href='https://x.example/'>",
    "é&lt;x",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg onload=x>",
    'https://x.example/"onclick=x',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), fc.boolean(), fc.boolean(), (pieces, isText, shown) => {
      const source = pieces.join("");
      const html = sanitizeHtml(source);
      const parts = isText ? { text: source } : { html, attachments: [{ id: "att_1", contentId: 'a"b' }] };
      const body = bodyOf(parts, shown ? addresses : blocked);
      const foreign = dangersIn(body).filter(
        (danger) => !/^img src=\/app\/(?:images\?|attachments\/att_1\/preview$)/.test(danger),
      );
      expect(foreign).toEqual([]);
      expect(body.includes('src="http')).toBe(false);
      expect(body.split(OPEN)).toHaveLength(body.split(CLOSED).length);
      if (!isText) expect(textOf(body.replace(OPEN, ""))).toBe(textOf(html));
    }),
  );
});

const textOf = (html: string): string => html.replaceAll(/<[^>]*>/g, "");
