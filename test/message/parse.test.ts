import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseMessage } from "../../src/message/parse.ts";
import { withoutSources } from "../harness/mail/parsed.ts";
import { plain } from "../harness/runner/plain.ts";

const parse = (text: string) => parseMessage(new Uint8Array(Buffer.from(text, "latin1")));
const utf8 = (text: string) => Buffer.from(text).toString("latin1");

describe("headers", () => {
  test("are parsed into values", async () => {
    const message = await parse(
      [
        "Received: from x",
        "Return-Path: <ann@a.example>",
        "From: =?utf-8?q?J=C3=B6rg?= <j@a.example>",
        "Sender: s@a.example",
        "To: Ann <ann@b.example>,",
        " bob@b.example",
        "To: third@b.example",
        "Cc: team: c@b.example;",
        "Bcc: secret@b.example",
        "Reply-To: r@a.example",
        "Subject: =?iso-8859-1?q?caf=E9?=",
        " today",
        "Date: Tue, 1 Jul 2003 10:52:37 +0200",
        "Message-ID: <m@a.example>",
        "In-Reply-To: <p@b.example>",
        "References: <r@b.example> <p@b.example>",
        "Auto-Submitted: auto-replied",
        "X-Custom: =?utf-8?q?kept?=",
        "Delivered-To: Ann@B.example",
        "Delivered-To: <>",
        "Delivered-To: bob@b.example",
        "MIME-Version: 1.0",
        "Content-Type: text/plain",
        "DKIM-Signature: v=1",
        "",
        "Hello",
        "",
      ].join("\r\n"),
    );
    expect(withoutSources(message)).toEqual({
      headers: [
        ["From", "=?utf-8?q?J=C3=B6rg?= <j@a.example>"],
        ["Sender", "s@a.example"],
        ["To", "Ann <ann@b.example>, bob@b.example"],
        ["To", "third@b.example"],
        ["Cc", "team: c@b.example;"],
        ["Reply-To", "r@a.example"],
        ["Subject", "=?iso-8859-1?q?caf=E9?= today"],
        ["Date", "Tue, 1 Jul 2003 10:52:37 +0200"],
        ["Message-ID", "<m@a.example>"],
        ["In-Reply-To", "<p@b.example>"],
        ["References", "<r@b.example> <p@b.example>"],
        ["Auto-Submitted", "auto-replied"],
        ["X-Custom", "=?utf-8?q?kept?="],
      ],
      messageId: "<m@a.example>",
      inReplyTo: "<p@b.example>",
      references: ["<r@b.example>", "<p@b.example>"],
      date: Date.UTC(2003, 6, 1, 8, 52, 37),
      from: { email: "j@a.example", name: "Jörg" },
      authors: { emails: ["j@a.example"], disguised: false },
      sender: { email: "s@a.example" },
      to: [{ email: "ann@b.example", name: "Ann" }, { email: "bob@b.example" }, { email: "third@b.example" }],
      cc: [{ email: "c@b.example" }],
      bcc: [{ email: "secret@b.example" }],
      replyTo: [{ email: "r@a.example" }],
      deliveredTo: ["ann@b.example", "bob@b.example"],
      subject: "café today",
      autoSubmitted: true,
      text: "Hello",
      attachments: [],
    });
  });

  test("may be missing", async () => {
    expect(await parse("")).toEqual({
      headers: [],
      authors: { emails: [], disguised: false },
      references: [],
      to: [],
      cc: [],
      bcc: [],
      replyTo: [],
      deliveredTo: [],
      subject: "",
      autoSubmitted: false,
      text: "",
      attachments: [],
    });
  });

  test("have 2,000 characters of a subject, and the field has the rest", async () => {
    const subject = `${"s".repeat(1_999)}😀${"s".repeat(9)}`;
    const message = await parse(utf8(`Subject: ${subject}\r\n\r\n`));
    expect(message.subject).toBe(`${"s".repeat(1_999)}\ufffd`);
    expect(message.headers).toEqual([["Subject", subject]]);
  });

  test("give the Sender in place of a missing From, and take `Auto-Submitted: no` for a person", async () => {
    const message = await parse("Sender: s@a.example\nAuto-Submitted: no (really)\n\n");
    expect(message.from).toEqual({ email: "s@a.example" });
    expect(message.autoSubmitted).toBe(false);
  });
});

describe("text", () => {
  const cases: [name: string, header: string, body: string, expected: string][] = [
    [
      "latin-1, quoted-printable",
      "text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable",
      "caf=E9=\r\n!",
      "café!",
    ],
    [
      "quoted-printable: white space at ends of lines, small digits, and what is not of the encoding",
      "text/plain; charset=utf-8\r\nContent-Transfer-Encoding: Quoted-Printable",
      "J=c3=b6rg \t\r\n=3D=\r\n=20.  = =4 ==41 =ZZ= \r\nend=",
      "Jörg\n= .  = =4 =A =ZZend",
    ],
    ["utf-8, base64", "text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: base64", "SsO2\r\ncmc=", "Jörg"],
    ["windows-1251", "text/plain; charset=windows-1251", "\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"],
    ["koi8-r", 'text/plain; charset="koi8-r"', "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"],
    ["gb18030", "text/plain; charset=gb18030", "\xc4\xe3\xba\xc3", "你好"],
    ["big5", "text/plain; charset=big5", "\xa7\x41\xa6\x6e", "你好"],
    ["euc-kr", "text/plain; charset=ks_c_5601-1987", "\xbe\xc8\xb3\xe7", "안녕"],
    ["shift_jis", "text/plain; charset=shift_jis", "\x82\xb1\x82\xf1", "こん"],
    ["iso-2022-jp", "text/plain; charset=iso-2022-jp", "\x1b$B$3$s\x1b(B", "こん"],
    ["utf-16le", "text/plain; charset=utf-16le\r\nContent-Transfer-Encoding: base64", "SABpAA==", "Hi"],
    ["utf-7", "text/plain; charset=utf-7", "Hi +AOk-", "Hi é"],
    ["cp437", "text/plain; charset=cp437", "caf\x82", "café"],
    ["iso-8859-8-i", "text/plain; charset=iso-8859-8-i", "\xf9\xec\xe5\xed", "שלום"],
    ["no charset, UTF-8", "text/plain", utf8("Jörg"), "Jörg"],
    ["no charset, windows-1252", "text/plain", "caf\xe9 \x80", "café €"],
    ["no charset, HTML that names one", "text/html", "<meta charset='iso-8859-2'>\xb3\xf3d\xbc", "łódź"],
    [
      "US-ASCII, HTML that names another",
      "text/html; charset=us-ascii",
      '<head><meta http-equiv="Content-Type" content="text/html; charset = koi8-r"></head>\xf0\xd2\xc9\xd7\xc5\xd4',
      "Привет",
    ],
    [
      "UTF-8, HTML that still names another",
      "text/html",
      `<meta charset=iso-8859-2>${utf8("Größe Bärbel")}\xc3`,
      "Größe Bärbel\ufffd",
    ],
    ["a charset, HTML that names another", "text/html; charset=koi8-r", "<meta charset=iso-8859-2>\xf0\xd2\xc9", "При"],
    ["HTML that names none of 8 bits", "text/html", "<meta charset=utf-16>caf\xe9", "café"],
    ["wrong charset", "text/plain; charset=utf-8", "caf\xe9", "café"],
    ["unknown charset", "text/plain; charset=x-unknown", "caf\xe9", "café"],
    ["unknown charset, UTF-8 inside", "text/plain; charset=x-unknown", utf8("Jörg"), "Jörg"],
    ["unknown encoding", "text/plain\r\nContent-Transfer-Encoding: x-none", "a=20b", "a=20b"],
    [
      "claims base64, is text",
      "text/plain\r\nContent-Transfer-Encoding: base64",
      "Dear customer, hello!",
      "Dear customer, hello!",
    ],
    ["base64 with a footer", "text/plain\r\nContent-Transfer-Encoding: base64", "SGVsbG8=\r\n", "Hello"],
    ["format=flowed", "text/plain; format=flowed", "one \r\ntwo\r\n three", "one two\nthree"],
    ["line ends", "text/plain", "a\r\nb\rc\nd\r\n\r\n", "a\nb\nc\nd"],
    [
      "NUL and lone surrogates",
      "text/plain; charset=utf-16le\r\nContent-Transfer-Encoding: base64",
      "YQAAAADYYgA=",
      "a\ufffdb",
    ],
  ];
  for (const [name, header, body, expected] of cases) {
    test(name, async () => expect((await parse(`Content-Type: ${header}\r\n\r\n${body}`)).text).toBe(expected));
  }

  test("is derived from HTML, with its links", async () => {
    const message = await parse('Content-Type: text/html\n\n<p>Hi <a href="https://a.example/">there</a></p>');
    expect(message.text).toBe("Hi there <https://a.example/>");
    expect(message.html).toBe('<p>Hi <a href="https://a.example/">there</a></p>');
  });
});

const multipart = (subtype: string, ...parts: string[]) =>
  `Content-Type: multipart/${subtype}; boundary=${subtype}\n\n${parts.map((part) => `--${subtype}\n${part}`).join("\n")}\n--${subtype}--\n`;
const PLAIN = "Content-Type: text/plain\n\nplain";
const HTML = 'Content-Type: text/html\n\n<p>html <img src="cid:pic@x"></p>';
const IMAGE = "Content-Type: image/png; name=p.png\nContent-ID: <pic@x>\nContent-Transfer-Encoding: base64\n\nQUJD";

describe("bodies and attachments", () => {
  test("both kinds of an alternative are shown, and its calendar is attached", async () => {
    const calendar = "Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR";
    const message = await parse(multipart("alternative", PLAIN, HTML, calendar));
    expect(message.text).toBe("plain");
    expect(message.html).toContain("html");
    expect(message.attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ["attachment-1.ics", "text/calendar"],
    ]);
  });

  const CALENDAR = "text/calendar\n\nBEGIN:VCALENDAR";
  const alternativesIn = async (mail: string) =>
    (await parse(mail)).attachments.map(({ alternative = false, unnamed = false }) => [alternative, unnamed]);
  test.each([
    ["alone with it", multipart("alternative", PLAIN, `Content-Type: ${CALENDAR}`)],
    ["beside files", multipart("mixed", multipart("alternative", PLAIN, `Content-Type: ${CALENDAR}`))],
    ["beside HTML", multipart("alternative", HTML, `Content-Type: ${CALENDAR}`)],
  ])("a file without a name stands beside the text: %s", async (_, mail) => {
    expect(await alternativesIn(mail)).toEqual([[true, true]]);
  });

  test.each([
    [
      "has a name",
      multipart("alternative", PLAIN, `Content-Disposition: inline; filename=a.ics\nContent-Type: ${CALENDAR}`),
      false,
    ],
    [
      "is to be saved",
      multipart("alternative", PLAIN, `Content-Disposition: attachment\nContent-Type: ${CALENDAR}`),
      true,
    ],
    ["is beside no text", multipart("alternative", `Content-Type: ${CALENDAR}`), true],
    ["comes after the text", multipart("mixed", PLAIN, `Content-Type: ${CALENDAR}`), true],
    ["is a text itself", multipart("alternative", PLAIN, HTML, "Content-Disposition: x-odd\n\nmore"), true],
  ])("a file is a file like others if it %s", async (_, mail, unnamed) => {
    expect(await alternativesIn(mail)).toEqual([[false, unnamed]]);
  });

  test("HTML that shows neither text nor images counts as absent", async () => {
    const htmlOf = async (html: string) =>
      (await parse(multipart("alternative", PLAIN, `Content-Type: text/html\n\n${html}`))).html;
    expect(await htmlOf("<html><title>DSN</title><body> &nbsp;</body></html>")).toBeUndefined();
    expect(await htmlOf("<img src=a.png>")).toBe("<img src=a.png>");
    expect(await htmlOf("<p hidden>secret</p>")).toBe("<p hidden>secret</p>");
  });

  const related = async (html: string, ids: string[], type = "image/png") => {
    const files = ids.map((id) => `Content-Type: ${type}\nContent-ID: <${id}>\n\nABC`);
    const { attachments } = await parse(multipart("related", `Content-Type: text/html\n\n${html}`, ...files));
    return attachments.map(({ inline }) => inline);
  };
  test.each([
    ["a(1)@x", "cid:a(1)@x"],
    ["a'b@x", "cid:a'b@x"],
    ["a b@x", " cid:a b@x "],
    ["a b@x", "cid:a%20b@x"],
    ["a&b@x", "cid:a&amp;b@x"],
    ["a@x", "CID:a&#64;x"],
  ])("the image %j is inline by the URL %j", async (id, url) => {
    expect(await related(`<img src="${url}">`, [id])).toEqual([true]);
  });

  test.each([
    '<table background="cid:pic@x"><tr><td>Hi</table>',
    '<p style="background:url(cid:pic@x)">Hi',
    '<a href="cid:pic@x">Hi</a>',
    '<!--[if mso]><img src="cid:pic@x"><![endif]-->Hi',
    '<video><img src="cid:pic@x"></video>Hi',
    '<picture><source srcset="cid:pic@x"></picture>Hi',
    "cid:pic@x",
  ])("a file that people are not shown in the HTML is not inline: %s", async (html) => {
    expect(await related(html, ["pic@x"])).toEqual([false]);
  });

  test("of several files with one id, that which is shown is inline; no PDF or drawing is", async () => {
    expect(await related('<img src="cid:pic@x">', ["pic@x", "pic@x"])).toEqual([false, true]);
    for (const type of ["application/pdf", "image/svg+xml", "image/tiff"])
      expect(await related('<img src="cid:pic@x">', ["pic@x"], type)).toEqual([false]);
    expect(await related('<img src="cid:pic@x">', ["pic@x"], "application/octet-stream")).toEqual([true]);
  });

  test("images that the HTML shows are inline and keep their cid", async () => {
    const other = IMAGE.replaceAll("pic@x", "other@x");
    const message = await parse(multipart("related", HTML, IMAGE, other));
    expect(message.html).toContain('src="cid:pic@x"');
    expect(message.attachments.map(({ inline, contentId }) => [inline, contentId])).toEqual([
      [true, "pic@x"],
      [false, "other@x"],
    ]);
    expect(Buffer.from(message.attachments[0]?.content ?? []).toString()).toBe("ABC");
  });

  test("several texts are all shown, also in the HTML", async () => {
    const message = await parse(multipart("mixed", PLAIN, HTML, "\nfooter <b>"));
    expect(message.text).toBe("plain\n\nhtml\n\nfooter <b>");
    expect(message.html).toContain("plain");
    expect(message.html).toContain("footer &lt;b&gt;");
  });

  test("an attachment in base64 is decoded, whatever stands between its digits and behind its end", async () => {
    const noise = fc.constantFrom("\n", "\r\n", " ", "\t", "!", "\xff");
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 200 }),
        fc.array(fc.tuple(fc.nat(300), noise)),
        async (octets, added) => {
          // The beginning says that it is base64.
          const content = Buffer.concat([Buffer.from("It begins so."), octets]);
          let text = content.toString("base64");
          const [head, padding = ""] = text.split(/(?=={1,2}$)/);
          text = head ?? "";
          for (const [at, character] of added) text = `${text.slice(0, 16 + at)}${character}${text.slice(16 + at)}`;
          const part = `Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n${text}${padding}`;
          const { attachments } = await parse(multipart("mixed", PLAIN, part + (padding && "\nQUJD")));
          expect(Buffer.from(attachments[0]?.content ?? []).equals(content)).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("a text without visible characters, or that only says that the mail needs HTML, counts as absent beside HTML", async () => {
    const html = "Content-Type: text/html\n\n<p>shown</p>";
    const related = multipart("related", html, IMAGE);
    for (const stub of [
      "",
      " \n\t\n",
      utf8("\u00a0\u200b\u034f\u00ad \ufeff"),
      "-",
      utf8("\u2014"),
      "View in HTML",
      "This is an HTML email: https://a.example/?q=1",
    ]) {
      const text = `Content-Type: text/plain; charset=utf-8\n\n${stub}`;
      for (const body of [html, related, multipart("mixed", html, IMAGE)]) {
        const message = await parse(multipart("alternative", text, body));
        expect([message.text, message.html]).toEqual(["shown", "<p>shown</p>"]);
      }
      // A list adds its footer as a part of its own.
      expect((await parse(multipart("mixed", multipart("alternative", text, html), "\nfooter"))).text).toBe(
        "shown\n\nfooter",
      );
      expect((await parse(multipart("mixed", text, html))).text).toBe("shown");
    }
  });

  test("such a text is shown where the HTML has none, or there is no HTML", async () => {
    const picture = "Content-Type: text/html\n\n<img src=cid:pic@x>";
    const stub = "Content-Type: text/plain\n\nView this email in your browser: https://a.example/";
    expect((await parse(multipart("alternative", stub, picture))).text).toContain("https://a.example/");
    expect((await parse(multipart("mixed", stub, IMAGE))).text).toContain("https://a.example/");
    expect((await parse("Content-Type: text/plain\n\n-")).text).toBe("-");
  });

  test("any other text stays, however short", async () => {
    for (const text of [
      "ok",
      "5",
      "https://a.example/",
      "See you online",
      "Thank you",
      "View this email in your browser, or call Ann",
    ]) {
      expect((await parse(multipart("alternative", `\n${text}`, HTML))).text).toBe(text);
    }
  });

  test("a note for programs without MIME is never text, wherever it stands", async () => {
    const note = "This is a multi-part message in MIME format.";
    const withNote = (whole: string) => whole.replace("\n\n--", `\n\n${note}\n\n--`);
    const outlook = withNote(multipart("related", withNote(multipart("alternative", PLAIN, HTML)), IMAGE));
    const message = await parse(withNote(multipart("mixed", outlook, "\nfooter")));
    expect(message.text).toBe("plain\n\nfooter");
    expect(message.html).not.toContain("MIME");
    expect(message.attachments.map(({ filename }) => filename)).toEqual(["p.png"]);
    expect(message.problem).toBeUndefined();
    // The inner multipart has nothing but its note.
    const empty = `Content-Type: multipart/alternative; boundary=alternative\n\n${note}`;
    expect((await parse(multipart("mixed", empty, PLAIN))).text).toBe("plain");
  });

  test("a preamble that says more is no text either, and the original is attached", async () => {
    const inner = multipart("alternative", PLAIN, HTML).replace("\n\n--", "\n\nPay by Friday.\n\n--");
    const message = await parse(multipart("mixed", inner));
    expect([message.text, message.problem]).toEqual(["plain", "text outside the parts"]);
    expect(message.attachments.map(({ filename }) => filename)).toEqual(["original.eml"]);
  });

  test("the root of a related multipart is the part that start names", async () => {
    const html = HTML.replace("text/html", "text/html\nContent-ID: <root@x>");
    for (const start of ["", "; start=<root@x>", '; start="<root@x>"']) {
      const related = multipart("related", IMAGE, html).replace("related;", `related${start};`);
      expect((await parse(related)).html !== undefined).toBe(start !== "");
    }
    const other = multipart("related", HTML, IMAGE).replace("related;", "related; start=<none@x>;");
    expect((await parse(other)).html).toContain("html");
  });

  test("a text that is meant as a file is attached", async () => {
    const file = 'Content-Type: text/plain; name="notes.txt"\n\nnotes';
    const attached = "Content-Type: text/html\nContent-Disposition: attachment\n\n<p>";
    const message = await parse(multipart("mixed", PLAIN, file, attached));
    expect(message.text).toBe("plain");
    expect(message.attachments.map(({ filename }) => filename)).toEqual(["notes.txt", "attachment-2.html"]);
  });

  test("a message, TNEF and a delivery status are attached byte for byte", async () => {
    const inside = "Subject: in\r\n\r\nside\r\n";
    const message = await parse(
      multipart(
        "mixed",
        `Content-Type: message/rfc822\nContent-Disposition: inline\n\n${inside}`,
        "Content-Type: application/ms-tnef; name=winmail.dat\nContent-Transfer-Encoding: base64\n\nQUJD",
        "Content-Type: message/delivery-status\n\nReporting-MTA: dns; x",
      ),
    );
    expect(message.text).toBe("");
    expect(message.attachments.map(({ filename, content }) => [filename, Buffer.from(content).toString()])).toEqual([
      ["in.eml", inside],
      ["winmail.dat", "ABC"],
      ["attachment-3.txt", "Reporting-MTA: dns; x"],
    ]);
  });

  test.each([
    ["Subject: Lunch?\n\nHi", "Lunch.eml"],
    ["\nSubject: =?utf-8?q?J=C3=B6rg=2FAnn?=: ../a\\b\n\nHi", "Jörg Ann .. a b.eml"],
    [`Subject: ${"long ".repeat(1_000)}\n\nHi`, `${"long ".repeat(40).trim()}.eml`],
    ["From: a@b.example\n\nHi", "attachment-1.eml"],
    ["Subject: //\n\nHi", "attachment-1.eml"],
  ])("a message that is attached without a name has its subject's: %j", async (inner, expected) => {
    const { attachments } = await parse(multipart("mixed", `Content-Type: message/rfc822\n\n${inner}`));
    expect(attachments.map(({ filename }) => filename)).toEqual([expected]);
  });

  const names: [header: string, expected: string][] = [
    ["attachment; filename*=utf-8''na%C3%AFve%20%E2%82%AC.pdf", "naïve €.pdf"],
    ["attachment; filename*0*=utf-8''a%20; filename*1=b.pdf", "a b.pdf"],
    ['attachment; filename*0*=utf-8\'\'%C3%A4 ; filename*1= " b " ; filename*2="\r\n .pdf"', "ä b  .pdf"],
    ['attachment; filename="=?utf-8?q?J=C3=B6rg=2Epdf?="', "Jörg.pdf"],
    ["attachment; filename==?utf-8?b?SsO2cmcucGRm?=", "Jörg.pdf"],
    [`attachment; filename="${utf8("Jörg.pdf")}"`, "Jörg.pdf"],
    ['attachment; filename="../../etc/passwd"', "passwd"],
    ['attachment; filename="C:\\\\Temp\\\\a.pdf"', "a.pdf"],
    [`attachment; filename="a${utf8("\u202e")}fdp.exe"`, "a fdp.exe"],
    ['attachment; filename="Report 1/2.pdf"', "Report 1_2.pdf"],
    ['attachment; filename="files/../../a.pdf"', "a.pdf"],
    ["filename=a.pdf", "a.pdf"],
    ["attachment", "attachment-1.pdf"],
    ['attachment; filename=""', "attachment-1.pdf"],
  ];
  for (const [header, expected] of names) {
    test(`filename of ${plain(header)}`, async () => {
      const message = await parse(`Content-Type: application/pdf\nContent-Disposition: ${header}\n\nx`);
      expect(message.attachments.map(({ filename }) => filename)).toEqual([expected]);
    });
  }
});

describe("mail that cannot be parsed", () => {
  const cases: [string, string][] = [
    ["too many parts", multipart("mixed", ...Array.from({ length: 1_500 }, () => PLAIN))],
    [
      "too deep",
      Array.from({ length: 99 }, (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\n\n--b${i}\n`).join(""),
    ],
    ["too many headers", `Subject: kept\n${"X: y\n".repeat(100_000)}\nbody`],
    ["a header line too long", `Subject: kept\nX: ${"y".repeat(1_000_000)}\n\nbody`],
  ];
  for (const [name, source] of cases) {
    test(`${name}: the original is attached`, async () => {
      const message = await parse(source);
      expect(message.problem).toBeString();
      expect(message.attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([
        ["original.eml", "message/rfc822"],
      ]);
      expect(Buffer.from(message.attachments[0]?.content ?? []).toString("latin1")).toBe(source);
      if (source.startsWith("Subject")) expect(message.subject).toBe("kept");
    });
  }
});

describe("text outside the parts", () => {
  const b = "Content-Type: multipart/mixed; boundary=b\r\n";
  const inside = "--b\r\n\r\nshown\r\n--b--\r\n";
  const doubtful: [name: string, source: string][] = [
    ["text before the parts", `${b}\r\nPay by Friday.\r\n${inside}`],
    ["a note and more", `${b}\r\nThis is a multi-part message in MIME format. Pay by Friday.\r\n${inside}`],
    ["a note with a link", `${b}\r\nThis is a message in MIME format: https://a.example/\r\n${inside}`],
    ["words of a note without end", `${b}\r\n${"this message is not MIME\r\n".repeat(50)}${inside}`],
    ["text after white space that is long", `${b}\r\n${" \r\n".repeat(9_000)}Pay.\r\n${inside}`],
    ["text after the parts", `${b}\r\n${inside}Pay by Friday.\r\n`],
    [
      "text between inner parts and the next",
      `${b}\r\n--b\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\nshown\r\n--i--\r\nPay.\r\n--b--\r\n`,
    ],
    ["text among the fields", `${b}Pay by Friday\r\nX: y\r\n\r\n${inside}`],
    ["fields after a line of white space", `${b} \r\nPay: Friday\r\n\r\n${inside}`],
    ["text as a field of a part", `${b}\r\n--b\r\nPay: by Friday\r\n\r\nshown\r\n--b--\r\n`],
    ["a footer below base64", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24K\r\n-- \r\nPay by Friday.\r\n"],
    ["a word below base64", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24K\r\nPayments\r\nFriday\r\n"],
    ["words beside base64", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24Kc2hvd24K Payments\r\n"],
    ["base64 behind its padding", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24=\r\nUGF5IQ==\r\n"],
    ["base64 behind its padding on one line", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24=UGF5IQ==\r\n"],
    ["base64 that ends too early", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24Kc2hvd24KQ\r\n"],
  ];
  for (const [name, source] of doubtful) {
    test(`${name}: the original is attached beside the shown text`, async () => {
      const message = await parse(`Bcc: eve@a.example\r\n${source}`);
      expect(message.problem).toBeString();
      expect(message.problem).not.toContain("Pay");
      expect(message.text).toContain("shown");
      expect(message.text).not.toContain("Pay!");
      const original = message.attachments.at(-1);
      expect([original?.filename, original?.contentType]).toEqual(["original.eml", "message/rfc822"]);
      expect(Buffer.from(original?.content ?? []).toString("latin1")).toBe(source);
    });
  }

  const plain: [name: string, source: string][] = [
    ["a note", `${b}\r\nThis is a multi-part message in MIME format.\r\n${inside}\r\n`],
    [
      "a note with a rule",
      `${b}\r\n-----\r\nThis is a cryptographically signed message in MIME format (RFC 2045).\r\n\r\n${inside}`,
    ],
    ["white space", `${b}\r\n \r\n${inside} \t\r\n\r\n`],
    [
      "MIME fields of a part",
      `${b}\r\n--b\r\nMIME-Version: 1.0\r\nX-Attachment-Id: f\r\nContent-ID: <a>\r\n\r\nshown\r\n--b--`,
    ],
    ["delimiters that come again", `${b}\r\n${inside}--b--\r\n`],
    ["a blank line that holds a space", `${b} \r\n${inside}`],
    ["base64 in pieces and lines", "Content-Transfer-Encoding: base64\r\n\r\nc2hvd24K\r\nc2hv\r\n\r\n"],
  ];
  for (const [name, source] of plain) {
    test(`${name}: does not count`, async () => {
      const message = await parse(source);
      expect(message.problem).toBeUndefined();
      expect(message.text).toContain("shown");
      expect(message.attachments).toEqual([]);
    });
  }
});

describe("wrong labels", () => {
  test("a part that names a boundary without being a multipart is kept whole", async () => {
    const content = "--b\r\nContent-Type: text/plain\r\n\r\none\r\n--b--\r\n";
    const message = await parse(
      `Content-Type: application/pdf; boundary="b"; name="boundary=\\"1\\".pdf"\r\n\r\n${content}`,
    );
    expect(Buffer.from(message.attachments[0]?.content ?? []).toString()).toBe(content);
    expect(message.attachments[0]?.filename).toBe('boundary="1".pdf');
  });

  test("prose that claims base64 behind a comment stays prose", async () => {
    const source = "Content-Transfer-Encoding: (sic) base64\r\n\r\n";
    expect((await parse(`${source}Good morning, this is prose.`)).text).toBe("Good morning, this is prose.");
    expect((await parse(`${source}R29vZCBtb3JuaW5n`)).text).toBe("Good morning");
  });

  for (const charset of ["utf-16", "UTF-16BE", "utf16le", "ucs-2", "utf-32", "base64", "hex"]) {
    for (const encoding of ["8bit", "base64"]) {
      test(`text in ASCII or latin1 that claims ${charset}, ${encoding}`, async () => {
        for (const text of [
          "word",
          "plain text\nof two lines",
          "caf\xe9 au lait\n",
          `${"caf\xe9 au lait\n".repeat(9)}\0\nend`,
        ]) {
          const octets = Buffer.from(text, "latin1");
          const content = encoding === "base64" ? octets.toString("base64") : text;
          const message = await parse(
            `Content-Type: text/plain; charset=${charset}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${content}`,
          );
          expect(message.text).toBe(text.trimEnd().replace("\0", ""));
        }
      });
    }
  }

  test("text in UTF-16 is decoded as UTF-16", async () => {
    const utf16 = (text: string) => Buffer.from(text, "utf16le").toString("base64");
    for (const text of ["中文", "中文\n第二行 a", "plain"]) {
      const source = `Content-Type: text/plain; charset=utf-16le\r\nContent-Transfer-Encoding: base64\r\n\r\n${utf16(text)}`;
      expect((await parse(source)).text).toBe(text);
    }
  });
});

test("parseMessage never rejects, and returns no NUL and no lone surrogate", async () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "Content-Type: multipart/alternative; boundary=b\n",
      "Content-Type: text/html; charset=utf-16\n",
      "Content-Transfer-Encoding: base64\n",
      "Content-Transfer-Encoding: quoted-printable\n",
      'Content-Disposition: attachment; filename="\0=?utf-16?q?=00=D8?="\n',
      "Subject: =?utf-16le?b?ANg=?= \0\n",
      "From: =?utf-16le?b?ANg=?= <a@b.example>\n",
      "\n",
      "--b\n",
      "--b--\n",
    ),
    fc.uint8Array({ maxLength: 60 }).map((octets) => Buffer.from(octets).toString("latin1")),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 20 }), async (pieces) => {
      const { attachments, ...message } = await parse(pieces.join(""));
      const strings = JSON.stringify([message, attachments.map(({ content: _, ...rest }) => rest)]);
      expect(strings).not.toContain("\\u0000");
      expect(strings).not.toMatch(/\\ud[89a-f]/i);
    }),
  );
});
