/** Mail in the forms that programs write, right or wrong, a message each. */
import type { CorpusFile } from "../harness/mail/corpus.ts";

const base64 = (text: string): string => Buffer.from(text, "latin1").toString("base64");
/** Texts here have a character for each octet. */
const utf8 = (text: string): string => Buffer.from(text).toString("latin1");

const one = (type: string, body: string, fields: string[] = []): string =>
  [
    ...["Subject: Test", "From: Ann <ann@a.example>", "To: bob@b.example", "MIME-Version: 1.0"],
    ...[`Content-Type: ${type}`, ...fields, "", body, ""],
  ].join("\r\n");
const part = (type: string, body: string, fields: string[] = []): string =>
  [`Content-Type: ${type}`, ...fields, "", body].join("\r\n");
const parts = (boundary: string, children: string[]): string =>
  `${children.map((child) => `--${boundary}\r\n${child}\r\n`).join("")}--${boundary}--`;
const multi = (type: string, ...children: string[]): string =>
  one(`multipart/${type}; boundary=bb`, parts("bb", children));
const inner = (type: string, boundary: string, ...children: string[]): string =>
  `Content-Type: multipart/${type}; boundary=${boundary}\r\n\r\n${parts(boundary, children)}`;
const attached = (...fields: string[]): string =>
  multi(
    "mixed",
    part("text/plain", "outer"),
    ["Content-Transfer-Encoding: base64", ...fields, "", base64("%PDF")].join("\r\n"),
  );
const field = (name: string, value: string): string =>
  one("text/plain; charset=utf-8", "x").replace(new RegExp(`^${name}: .*$`, "m"), () => `${name}: ${value}`);
const MESSAGE = utf8(
  "Subject: Inner\r\nFrom: Zoe <zoe@z.example>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nInnerword grüße",
);
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const FORMS: Record<string, string> = {
  "text/enriched alone": one("text/enriched", "<bold>Hello</bold> world"),
  "text/richtext alone": one("text/richtext", "<bold>Hello</bold> world"),
  "text/markdown alone": utf8(one("text/markdown; charset=utf-8", "# Hällo")),
  "text/csv alone": one("text/csv", "alpha,beta"),
  "text/x-unknown alone": utf8(one("text/x-unknown; charset=utf-8", "Hällo there")),
  "text/xml alone": one("text/xml", "<a>Hello</a>"),
  "application/xhtml+xml alone": one(
    "application/xhtml+xml",
    "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>Hello</p></body></html>",
  ),
  "text/x-amp-html alone": one("text/x-amp-html", "<html amp4email><body>Hello</body></html>"),
  "plain disposition attachment alone": one("text/plain; name=a.txt", "Hello", [
    "Content-Disposition: attachment; filename=a.txt",
  ]),
  "html disposition inline named": one("text/html; name=a.html", "<p>Hello</p>", [
    "Content-Disposition: inline; filename=a.html",
  ]),
  "no content type": utf8("Subject: Test\r\n\r\nHello wörld"),
  text: one("text", "Hello"),
  "unknown/unknown": one("unknown/unknown", "Hello"),
  "two plain": multi("mixed", part("text/plain", "first"), part("text/plain", "second")),
  "plain image plain": multi(
    "mixed",
    part("text/plain", "first"),
    part("image/png; name=a.png", base64("PNG"), ["Content-Transfer-Encoding: base64"]),
    part("text/plain", "second"),
  ),
  "plain html mixed": multi("mixed", part("text/plain", "first"), part("text/html", "<p>second</p>")),
  "html plain mixed": multi("mixed", part("text/html", "<p>first</p>"), part("text/plain", "second footer")),
  "alternative html first": multi("alternative", part("text/html", "<p>html</p>"), part("text/plain", "plain")),
  "alternative plain, related html": multi(
    "alternative",
    part("text/plain", "plain"),
    inner(
      "related",
      "cc",
      part("text/html", "<p>html <img src=cid:i@x></p>"),
      part("image/png; name=i.png", PIXEL, ["Content-Transfer-Encoding: base64", "Content-ID: <i@x>"]),
    ),
  ),
  "alternative in mixed with pdf inside": multi(
    "alternative",
    part("text/plain", "plain"),
    inner(
      "mixed",
      "cc",
      part("text/html", "<p>htmlone</p>"),
      part("application/pdf; name=a.pdf", base64("%PDF"), ["Content-Transfer-Encoding: base64"]),
      part("text/html", "<p>htmltwo</p>"),
    ),
  ),
  "alternative plain enriched": multi(
    "alternative",
    part("text/plain", "plain"),
    part("text/enriched", "<bold>rich</bold>"),
  ),
  "alternative only enriched": multi("alternative", part("text/enriched", "<bold>rich</bold>")),
  digest: multi("digest", `\r\n${MESSAGE}`, `\r\n${MESSAGE.replace("Inner", "Second")}`),
  parallel: multi("parallel", part("text/plain", "first"), part("text/plain", "second")),
  "unknown multipart": multi("x-mine", part("text/plain", "first"), part("text/plain", "second")),
  "related start": one(
    'multipart/related; boundary=bb; start="<r@x>"; type="text/html"',
    `--bb\r\n${part("text/plain; name=b.txt", "other", ["Content-ID: <o@x>"])}\r\n--bb\r\n${part("text/html", "<p>root</p>", ["Content-ID: <r@x>"])}\r\n--bb--`,
  ),
  rfc822: multi("mixed", part("text/plain", "outer"), part("message/rfc822", MESSAGE)),
  "rfc822 base64": multi(
    "mixed",
    part("text/plain", "outer"),
    part("message/rfc822", base64(MESSAGE), ["Content-Transfer-Encoding: base64"]),
  ),
  "rfc822 qp": utf8(
    multi(
      "mixed",
      part("text/plain", "outer"),
      part("message/rfc822", MESSAGE.replace(utf8("grüße"), "gr=C3=BC=C3=9Fe"), [
        "Content-Transfer-Encoding: quoted-printable",
      ]),
    ),
  ),
  "rfc822 alone": one("message/rfc822", MESSAGE),
  news: multi("mixed", part("text/plain", "outer"), part("message/news", MESSAGE)),
  "external body": multi(
    "mixed",
    part("text/plain", "outer"),
    part(
      'message/external-body; access-type=URL; URL="http://x.example/f"',
      "Content-Type: application/pdf; name=far.pdf\r\n\r\n",
    ),
  ),
  "apple double": multi(
    "mixed",
    part("text/plain", "outer"),
    inner(
      "appledouble",
      "cc",
      part("application/applefile; name=a", base64("x"), ["Content-Transfer-Encoding: base64"]),
      part("application/pdf; name=a.pdf", base64("%PDF"), ["Content-Transfer-Encoding: base64"]),
    ),
  ),
  binhex: multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/mac-binhex40; name=a.hqx", "(This file must be converted with BinHex 4.0)\r\n\r\n:abc:"),
  ),
  "uu attachment cte": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/octet-stream; name=hello.txt", "begin 644 hello.txt\r\n%2&5L;&\\\r\n`\r\nend", [
      "Content-Transfer-Encoding: x-uuencode",
      "Content-Disposition: attachment",
    ]),
  ),
  flowed: one("text/plain; format=flowed; delsp=yes", "Hel \r\nlo world \r\n\r\n> quote \r\n> more"),
  "qp soft": one("text/plain; charset=iso-8859-1", "Gr=FC=DFe =\r\nwelt=20\r\nx=3Dy =XX", [
    "Content-Transfer-Encoding: quoted-printable",
  ]),
  "qp lower hex": one("text/plain; charset=utf-8", "gr=c3=bc=c3=9fe", ["Content-Transfer-Encoding: Quoted-Printable "]),
  "base64 wrapped odd": one("text/plain; charset=utf-8", base64(utf8("Grüße aus Köln")).replace(/.{7}/, "$&\r\n "), [
    "Content-Transfer-Encoding: BASE64",
  ]),
  "charset quoted with comment": utf8(one('text/plain; charset="utf-8" (comment)', "Grüße")),
  "charset utf8": utf8(one("text/plain; charset=utf8", "Grüße")),
  "charset cp1252": one("text/plain; charset=cp1252", "=80 =93x=94", ["Content-Transfer-Encoding: quoted-printable"]),
  "charset iso-8859-1 with euro": one("text/plain; charset=iso-8859-1", "=80 =93x=94", [
    "Content-Transfer-Encoding: quoted-printable",
  ]),
  "charset x-mac-roman": one("text/plain; charset=macintosh", "=8A=9F", [
    "Content-Transfer-Encoding: quoted-printable",
  ]),
  "html meta qp charset": one(
    "text/html",
    '<html><head><meta http-equiv=3D"Content-Type" content=3D"text/html; charset=3Diso-8859-2"></head><p>=B3=F3d=BC',
    ["Content-Transfer-Encoding: quoted-printable"],
  ),
  "html meta koi8 vs header": one("text/html; charset=koi8-r", "<meta charset=utf-8><p>=F0=D2=C9=D7=C5=D4", [
    "Content-Transfer-Encoding: quoted-printable",
  ]),
  "utf-16 base64": utf8(
    one("text/plain; charset=utf-16le", Buffer.from("Grüße", "utf16le").toString("base64"), [
      "Content-Transfer-Encoding: base64",
    ]),
  ),
  "utf-7": one("text/plain; charset=utf-7", "Gr+APwA3w-e"),
  "filename 2231": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      "Content-Disposition: attachment; filename*0*=utf-8''Gr%C3%BC; filename*1*=%C3%9Fe; filename*2=.pdf",
    ]),
  ),
  "filename encoded word split": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      'Content-Disposition: attachment; filename="=?utf-8?Q?Gr=C3=BC?=\r\n =?utf-8?Q?=C3=9Fe.pdf?="',
    ]),
  ),
  "filename name only": multi(
    "mixed",
    part("text/plain", "outer"),
    part('application/pdf; name="=?iso-8859-1?Q?Gr=FC=DFe.pdf?="', base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
    ]),
  ),
  "filename spaces unquoted": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      "Content-Disposition: attachment; filename=my big file.pdf",
    ]),
  ),
  "filename path": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      'Content-Disposition: attachment; filename="C:\\\\dir\\\\my.pdf"',
    ]),
  ),
  "filename latin1 2231": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      "Content-Disposition: attachment; filename*=iso-8859-1'en'Gr%FC%DFe.pdf",
    ]),
  ),
  "description names": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), ["Content-Transfer-Encoding: base64", "Content-Description: The plan.pdf"]),
  ),
  "location names": multi(
    "mixed",
    part("text/plain", "outer"),
    part("application/pdf", base64("%PDF"), [
      "Content-Transfer-Encoding: base64",
      "Content-Location: http://x.example/plan.pdf",
    ]),
  ),
  "vcard inline": multi(
    "mixed",
    part("text/plain", "outer"),
    part("text/vcard; name=a.vcf", "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Zoe Zed\r\nEND:VCARD"),
  ),
  "csv inline": multi(
    "mixed",
    part("text/plain", "outer"),
    part("text/csv; charset=iso-8859-1", "Gr=FC=DFe", [
      "Content-Disposition: inline",
      "Content-Transfer-Encoding: quoted-printable",
    ]),
  ),
  "log inline named": multi(
    "mixed",
    part("text/plain", "outer"),
    part("text/plain; name=a.log; charset=iso-8859-1", "Gr=FC=DFe", [
      "Content-Disposition: inline; filename=a.log",
      "Content-Transfer-Encoding: quoted-printable",
    ]),
  ),
  signed: multi(
    'signed; protocol="application/pgp-signature"; micalg=pgp-sha256',
    part("text/plain", "signedtext"),
    part(
      "application/pgp-signature; name=signature.asc",
      "-----BEGIN PGP SIGNATURE-----\r\n\r\nabc\r\n-----END PGP SIGNATURE-----",
    ),
  ),
  encrypted: multi(
    'encrypted; protocol="application/pgp-encrypted"',
    part("application/pgp-encrypted", "Version: 1"),
    part(
      "application/octet-stream; name=encrypted.asc",
      "-----BEGIN PGP MESSAGE-----\r\n\r\nabc\r\n-----END PGP MESSAGE-----",
    ),
  ),
  "pgp inline": one(
    "text/plain",
    "-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA256\r\n\r\nClear words\r\n-----BEGIN PGP SIGNATURE-----\r\n\r\nabc\r\n-----END PGP SIGNATURE-----",
  ),
  "no boundary param": one("multipart/mixed", "--bb\r\nContent-Type: text/plain\r\n\r\nHello\r\n--bb--"),
  "missing close": one(
    "multipart/mixed; boundary=bb",
    "--bb\r\nContent-Type: text/plain\r\n\r\nHello\r\n--bb\r\nContent-Type: text/plain\r\n\r\nSecond",
  ),
  "boundary trailing space": one(
    'multipart/mixed; boundary="bb "',
    "--bb \r\nContent-Type: text/plain\r\n\r\nHello\r\n--bb --",
  ),
  "double content type": one("text/plain", "<p>Hello</p>", ["Content-Type: text/html"]),
  "subject utf8 raw": utf8(one("text/plain", "x").replace("Subject: Test", "Subject: Grüße 漢字")),
  "subject folded words": one("text/plain", "x").replace(
    "Subject: Test",
    "Subject: =?utf-8?B?R3LDvMOf?=\r\n =?utf-8?B?ZSBhdXM=?= K=?utf-8?Q?=C3=B6?=ln",
  ),
  "subject word in middle": one("text/plain", "x").replace(
    "Subject: Test",
    "Subject: [list]=?utf-8?Q?Gr=C3=BC=C3=9Fe?=",
  ),
  "subject space in word": one("text/plain", "x").replace(
    "Subject: Test",
    "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe aus K=C3=B6ln?=",
  ),
  "subject no padding": one("text/plain", "x").replace("Subject: Test", "Subject: =?utf-8?B?R3LDvMOfZQ?="),
  "subject two fields": one("text/plain", "x").replace("Subject: Test", "Subject: First one\r\nSubject: Second"),
  "from groups": one("text/plain", "x").replace(
    "To: bob@b.example",
    "To: Team: Bob <bob@b.example>, cy@c.example;, Dan <dan@d.example>",
  ),
  "from quoted comma": one("text/plain", "x").replace("From: Ann <ann@a.example>", 'From: "Doe, Ann" <ann@a.example>'),
  "from encoded comma": one("text/plain", "x").replace(
    "From: Ann <ann@a.example>",
    "From: =?utf-8?Q?D=C3=B6e=2C_Ann?= <ann@a.example>",
  ),
  "from idn": one("text/plain", "x").replace("From: Ann <ann@a.example>", "From: Ann <ann@xn--bcher-kva.example>"),
  "from escaped quote": one("text/plain", "x").replace(
    "From: Ann <ann@a.example>",
    'From: "Ann \\"The\\" Doe" <ann@a.example>',
  ),
  "from semicolon list": one("text/plain", "x").replace("To: bob@b.example", "To: bob@b.example; cy@c.example"),
  "html only image": one("text/html", "<img src='http://x.example/a.png' alt='Alttext'>"),
  "html title only": one("text/html", "<html><head><title>Titlewords</title></head><body><p>Hello</p></body></html>"),
  "html pre entities": one("text/html", "<pre>a &lt;b&gt; &nbsp; &amp;copy; &copy; &#8364; &#x1F600; &bogus;</pre>"),
  "html cdata": one("text/html", "<p>before <![CDATA[inside]]> after</p>"),
  "html conditional": one(
    "text/html",
    "<!--[if mso]><p>outlook</p><![endif]--><!--[if !mso]><!--><p>others</p><!--<![endif]--><![if !mso]><p>downlevel</p><![endif]>",
  ),
  "html unclosed comment": one("text/html", "<p>before</p><!-- never closed <p>after</p>"),
  "html plaintext looks": one("text/html", "Just text < 5 and > 3 & more"),
  "html table misnested": one("text/html", "<table><tr>stray<td>cell</table>"),
  "html ruby": utf8(one("text/html", "<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>")),
  "html form": one(
    "text/html",
    "<form><label>Name</label><input value=inputvalue><button>Press</button><textarea>areawords</textarea></form>",
  ),
  "html br in pre": one("text/html", "a<br>b<hr>c<wbr>d&shy;e"),
  "html marquee": one("text/html", "<marquee>moving</marquee><blink>blinking</blink><center>mid</center>"),
  "html bdo": one("text/html", "<bdo dir=rtl>abc</bdo><q>quoted</q>"),
  "html list": one("text/html", "<ol><li>one<li>two</ol><dl><dt>term<dd>def</dl>"),
  "html uppercase": one("text/html", "<p style='text-transform:uppercase'>hello</p>"),
  "html nested body": one("text/html", "<html><body><p>one</p></body></html><html><body><p>two</p></body></html>"),
  "html after end": one("text/html", "<html><body><p>one</p></body></html>footer added by list"),
  "name 2231 no charset": attached(
    "Content-Type: application/pdf",
    "Content-Disposition: attachment; filename*=Gr%C3%BC%C3%9Fe.pdf",
  ),
  "name 2231 in name": attached("Content-Type: application/pdf; name*=utf-8''Gr%C3%BC%C3%9Fe.pdf"),
  "name 2231 and plain": attached(
    "Content-Type: application/pdf",
    "Content-Disposition: attachment; filename=\"plain.pdf\"; filename*=utf-8''Gr%C3%BC%C3%9Fe.pdf",
  ),
  "name both differ": attached(
    "Content-Type: application/pdf; name=typename.pdf",
    "Content-Disposition: attachment; filename=dispname.pdf",
  ),
  "name ew unquoted": attached("Content-Type: application/pdf; name==?utf-8?B?R3LDvMOfZS5wZGY=?="),
  "name ew inside 2231": attached(
    "Content-Type: application/pdf",
    'Content-Disposition: attachment; filename*0="=?utf-8?B?R3LDvMOf"; filename*1="ZS5wZGY=?="',
  ),
  "name ew two parts quoted": attached(
    'Content-Type: application/pdf; name="=?utf-8?B?R3LDvMOf?= =?utf-8?B?ZS5wZGY=?="',
  ),
  "name raw utf8": utf8(attached('Content-Type: application/pdf; name="Grüße.pdf"')),
  "name raw latin1": attached('Content-Type: application/pdf; name="Gr\xfc\xdfe.pdf"'),
  "name percent plain": attached('Content-Type: application/pdf; name="Gr%C3%BC.pdf"'),
  "name escaped quote": attached('Content-Type: application/pdf; name="a \\"b\\" c.pdf"'),
  "name semicolon": attached('Content-Type: application/pdf; name="a;b.pdf"'),
  "name single quotes": attached(
    "Content-Type: application/pdf",
    "Content-Disposition: attachment; filename='single.pdf'",
  ),
  "name slash": attached('Content-Type: application/pdf; name="Bericht 1/2.pdf"'),
  "name colon": attached('Content-Type: application/pdf; name="Re: plan.pdf"'),
  "name trailing dot": attached('Content-Type: application/pdf; name="plan.pdf."'),
  "name folded": attached('Content-Type: application/pdf;\r\n name="a long\r\n name.pdf"'),
  "name upper params": attached(
    'Content-Type: APPLICATION/PDF; NAME="UP.PDF"',
    'CONTENT-DISPOSITION: ATTACHMENT; FILENAME="UP.PDF"',
  ),
  "name empty": attached('Content-Type: application/pdf; name=""', 'Content-Disposition: attachment; filename=""'),
  "name 2231 three pieces out of order": attached(
    "Content-Type: application/pdf",
    "Content-Disposition: attachment; filename*1=b; filename*0=a; filename*2=.pdf",
  ),
  "name sjis 2231": attached(
    "Content-Type: application/pdf",
    "Content-Disposition: attachment; filename*=shift_jis''%82%B1%82%F1.pdf",
  ),
  "name iso2022jp ew": attached('Content-Type: application/pdf; name="=?iso-2022-jp?B?GyRCJTMlcxsoQi5wZGY=?="'),
  "name no semicolon": attached('Content-Type: application/pdf name="nosemi.pdf"'),
  "disposition unknown": attached("Content-Type: application/pdf", "Content-Disposition: foo; filename=foo.pdf"),
  "disposition only filename": attached("Content-Type: application/pdf", "Content-Disposition: filename=only.pdf"),
  "octet-stream html": attached("Content-Type: application/octet-stream; name=page.html"),
  "no type, disposition": attached("Content-Disposition: attachment; filename=notype.pdf"),
  "subject q underscores": field("Subject", "=?ISO-8859-1?Q?a_b=5Fc=20d?="),
  "subject b with spaces": field("Subject", "=?utf-8?B?R3LD vMOfZQ==?="),
  "subject q with spaces": field("Subject", "=?utf-8?Q?Gr=C3=BC=C3=9Fe aus Koeln?="),
  "subject q question": field("Subject", "=?utf-8?Q?Really??="),
  "subject q raw utf8": utf8(field("Subject", "=?utf-8?Q?Grüße_x?=")),
  "subject nested": field("Subject", "=?utf-8?Q?=3D=3Futf-8=3FQ=3Fa=3F=3D?="),
  "subject unknown charset": field("Subject", "=?x-nope?Q?Gr=FC=DFe?="),
  "subject utf8 label": field("Subject", "=?utf8?Q?Gr=C3=BC=C3=9Fe?="),
  "subject cp1252": field("Subject", "=?cp1252?Q?=80_=93x=94?="),
  "subject latin1 with 1252": field("Subject", "=?iso-8859-1?Q?=80_=93x=94?="),
  "subject gb2312 with gbk": field("Subject", "=?gb2312?B?6UI=?="),
  "subject big5": field("Subject", "=?big5?B?p0GmbqFI?="),
  "subject ks_c": field("Subject", "=?ks_c_5601-1987?B?vsiz5w==?="),
  "subject tis-620": field("Subject", "=?tis-620?B?ytfHue0=?="),
  "subject split char different case": field("Subject", "=?UTF-8?Q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?="),
  "subject b split unaligned": field("Subject", "=?utf-8?B?R3L?= =?utf-8?B?DvMOfZQ==?="),
  "subject tab fold": field("Subject", "one\r\n\ttwo\r\n three"),
  "subject only spaces word": field("Subject", "=?utf-8?Q?_?="),
  "subject latin1 raw, body utf8": one("text/plain; charset=utf-8", "x").replace(
    "Subject: Test",
    "Subject: Gr\xfc\xdfe",
  ),
  "subject sjis raw, body sjis": one("text/plain; charset=shift_jis", "\x82\xb1").replace(
    "Subject: Test",
    "Subject: \x83\x65\x83\x58\x83\x67",
  ),
  "subject ew adjacent no space": field("Subject", "=?utf-8?Q?Gr=C3=BC?==?utf-8?Q?=C3=9Fe?="),
  "subject rfc2231 lang": field("Subject", "=?utf-8*de?Q?Gr=C3=BC=C3=9Fe?="),
  "subject broken end": field("Subject", "=?utf-8?Q?Gr=C3=BC=C3=9Fe?"),
  "from comment only name": field("From", "ann@a.example (Ann =?utf-8?Q?Gr=C3=BCn?=)"),
  "from ew quoted": field("From", '"=?utf-8?Q?Ann_Gr=C3=BCn?=" <ann@a.example>'),
  "from ew with at": field("From", "=?utf-8?Q?Ann_=40_Home?= <ann@a.example>"),
  "from backslashes": field("From", '"Ann \\\\ Doe" <ann@a.example>'),
  "from single quotes": field("From", "'Ann Doe' <ann@a.example>"),
  "from no space": field("From", "Ann Doe<ann@a.example>"),
  "from double angle": field("From", "Ann <<ann@a.example>>"),
  "from spaces in angle": field("From", "Ann < ann@a.example >"),
  "from dot name": field("From", "Ann B. Doe <ann@a.example>"),
  "from paren dot": field("From", "Ann Doe (via Lists.) <list@a.example>"),
  "from quoted local": field("From", '"ann doe"@a.example'),
  "from route": field("From", "Ann <@r.example:ann@a.example>"),
  "from mailto": field("From", "mailto:ann@a.example"),
  "from plain name": field("From", "Ann Doe"),
  "from brackets name": field("From", "[Ann] Doe <ann@a.example>"),
  "from raw utf8": utf8(field("From", "Jörg Müller <j@a.example>")),
  "from ew comma raw": field("From", "=?utf-8?Q?M=C3=BCller,_J?= <j@a.example>"),
  "from name comma unquoted": field("From", "Doe, Ann <ann@a.example>"),
  "from emoji": field("From", "=?utf-8?B?8J+Yg+KcqA==?= Shop <shop@a.example>"),
  "to many folded": field("To", 'Bob <bob@b.example>,\r\n Cy <cy@c.example>,\r\n\t"D, E" <d@d.example>'),
  "to trailing comma": field("To", "bob@b.example, , cy@c.example,"),
  "to group ew": field("To", "=?utf-8?Q?Gr=C3=BCppe?=: bob@b.example, Cy <cy@c.example>;"),
  "to newline name": field("To", "Bob\r\n Builder\r\n <bob@b.example>"),
  "to two fields": one("text/plain", "x").replace("To: bob@b.example", "To: bob@b.example\r\nTo: cy@c.example"),
  cc: one("text/plain", "x").replace(
    "To: bob@b.example",
    "To: bob@b.example\r\nCc: =?utf-8?Q?Z=C3=B6e?= <zoe@z.example>, y@y.example",
  ),
  "header no space": one("text/plain", "x").replace("Subject: Test", "Subject:Tight"),
  "header space before colon": one("text/plain", "x").replace("Subject: Test", "Subject : Loose"),
  "header lf": one("text/plain", "x\r\ny").replaceAll("\r\n", "\n"),
  "leading blank line": `\r\n${one("text/plain", "words here")}`,
  "mbox from line": `From ann@a.example Mon Jan 1 00:00:00 2026\r\n${one("text/plain", "words here")}`,
  "bom before header": `\xef\xbb\xbf${one("text/plain", "words here")}`,
  "bom in body": one("text/plain; charset=utf-8", "\xef\xbb\xbfwords"),
  "body koi8 unlabelled": one(
    "text/plain",
    "\xf0\xd2\xc9\xd7\xc5\xd4, \xcb\xc1\xcb \xc4\xc5\xcc\xc1? \xf7\xd3\xc5 \xc8\xcf\xd2\xcf\xdb\xcf \xd5 \xce\xc1\xd3.",
  ),
  "body 1251 unlabelled": one(
    "text/plain",
    "\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0? \xc2\xf1\xe5 \xf5\xee\xf0\xee\xf8\xee \xf3 \xed\xe0\xf1.",
  ),
  "body gbk unlabelled": one(
    "text/plain",
    "\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7\xa1\xa3\xce\xd2\xc3\xc7\xba\xdc\xb8\xdf\xd0\xcb\xbc\xfb\xb5\xbd\xc4\xe3\xa1\xa3",
  ),
  "body sjis unlabelled": one(
    "text/plain",
    "\x82\xb1\x82\xf1\x82\xc9\x82\xbf\x82\xcd\x81A\x90\xa2\x8aE\x81B\x8c\xb3\x8bC\x82\xc5\x82\xb7\x82\xa9\x81H",
  ),
  "body euc-jp unlabelled": one(
    "text/plain",
    "\xa4\xb3\xa4\xf3\xa4\xcb\xa4\xc1\xa4\xcf\xa1\xa2\xc0\xa4\xb3\xa6\xa1\xa3\xb8\xb5\xb5\xa4\xa4\xc7\xa4\xb9\xa4\xab\xa1\xa9",
  ),
  "body big5 unlabelled": one(
    "text/plain",
    "\xa7A\xa6n\xa1A\xa5@\xac\xc9\xa1C\xa7\xda\xad\xcc\xab\xdc\xb0\xaa\xbf\xb3\xa8\xa3\xa8\xec\xa7A\xa1C",
  ),
  "body euc-kr unlabelled": one(
    "text/plain",
    "\xbe\xc8\xb3\xe7\xc7\xcf\xbc\xbc\xbf\xe4, \xbc\xbc\xb0\xe8. \xb8\xb8\xb3\xaa\xbc\xad \xb9\xdd\xb0\xa9\xbd\xc0\xb4\xcf\xb4\xd9.",
  ),
  "body latin2 unlabelled": one(
    "text/plain",
    "Dobr\xfd den, p\xf8\xed\xb9ern\xec \xbelu\xbbou\xe8k\xfd k\xf9\xf2 \xfap\xecl \xef\xe1belsk\xe9 \xf3dy.",
  ),
  "body greek unlabelled": one(
    "text/plain",
    "\xca\xe1\xeb\xe7\xec\xdd\xf1\xe1 \xea\xfc\xf3\xec\xe5, \xf4\xe9 \xea\xdc\xed\xe5\xf4\xe5 \xf3\xde\xec\xe5\xf1\xe1;",
  ),
  "body hebrew visual": one("text/plain; charset=iso-8859-8", "\xf9\xec\xe5\xed"),
  "body thai": one("text/plain; charset=windows-874", "\xca\xc7\xd1\xca\xb4\xd5"),
  "body arabic": one("text/plain; charset=windows-1256", "\xe3\xd1\xcd\xc8\xc7"),
  "body utf-8 label on 1252": one("text/plain; charset=utf-8", "Gr\xfc\xdfe aus K\xf6ln, \x93Zitat\x94"),
  "body 8859-1 label on utf8": utf8(one("text/plain; charset=iso-8859-1", "Grüße aus Köln")),
  "body us-ascii with utf8": utf8(one("text/plain; charset=us-ascii", "Grüße aus Köln")),
  "body utf-32": one(
    "text/plain; charset=utf-32le",
    Buffer.from("G\0\0\0r\0\0\0\xfc\0\0\0", "latin1").toString("base64"),
    ["Content-Transfer-Encoding: base64"],
  ),
  "body ibm850": one("text/plain; charset=ibm850", "gr\x81n"),
  "body iso-8859-15": one("text/plain; charset=iso-8859-15", "\xa4"),
  "body hz": one("text/plain; charset=hz-gb-2312", "~{Dc:C~}"),
  "body iso-2022-kr": one("text/plain; charset=iso-2022-kr", "\x1b$)C\x0e>H3g\x0f"),
  "html entity utf8 mixture": utf8(one("text/html; charset=utf-8", "<p>Grüße &uuml; &#252; &#xfc; &#128; &#146;")),
  "html base64 no charset utf8": one("text/html", Buffer.from("<p>Grüße</p>").toString("base64"), [
    "Content-Transfer-Encoding: base64",
  ]),
  "html xml prolog": one("text/html", "<?xml version='1.0' encoding='utf-8'?><p>Hello</p>"),
  "html meta refresh": one("text/html", "<meta http-equiv=refresh content='0;url=http://x.example/'><p>Hello"),
  "html base": one("text/html", "<base href='http://x.example/'><p><a href=page>Link words</a>"),
  "html frames": one(
    "text/html",
    "<html><frameset><frame src=a></frameset><noframes><body>Frame words</body></noframes></html>",
  ),
  "html bgsound": one("text/html", "<bgsound src=a><p>Hello<embed src=b>"),
  "html zwnj": one("text/html", "<p>co&shy;op&zwnj;er&#8203;ate</p>"),
  "html comment in tag": one("text/html", "<p <!-- x --> class=a>Hello</p>"),
  "html bad attr": one(
    "text/html",
    '<p style="color:red" "oops">Hello</p><a href="http://x.example/?a=1&b=2">link</a>',
  ),
  "html lone lt": one("text/html", "1 < 2 and <3 hearts <3> and a<b"),
  "html o:p": one("text/html", "<p class=MsoNormal>Text<o:p>&nbsp;</o:p><st1:place>Paris</st1:place></p>"),
  "html vml": one(
    "text/html",
    "<!--[if gte vml 1]><v:shape>vml</v:shape><![endif]--><![if !vml]><p>novml</p><![endif]>",
  ),
  "html select": one("text/html", "<select><option>opt1</select><p>after"),
  "html image input": one("text/html", "<input type=submit value=Send><input type=image alt=Go>"),
  "html table caption": one(
    "text/html",
    "<table><caption>Cap</caption><thead><tr><th>Head</th></tr></thead><tbody><tr><td>Cell</td></tr></tbody><tfoot><tr><td>Foot</td></tr></tfoot></table>",
  ),
};

export const FORMS_OF_MAIL: CorpusFile[] = Object.entries(FORMS).map(([name, text]) => ({
  name,
  bytes: new Uint8Array(Buffer.from(text, "latin1")),
}));
