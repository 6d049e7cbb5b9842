/**
 * Mail in the manner of widely used programs and template languages, written for these tests. Each word `HIDDEN…` must not be
 * seen, each word `PHONE…` only in a narrow window, and each word `DESK…` only in a wide one.
 */

const document = (head: string, body: string, attributes = ""): string =>
  `<!doctype html><html><head><meta charset="utf-8">${head}</head><body${attributes}>${body}</body></html>`;

export const MAIL_TEMPLATES: Record<string, string> = {
  mjml: document(
    `<title>HIDDEN title</title><meta name="viewport" content="width=device-width,initial-scale=1">
<style type="text/css">
  #outlook a { padding:0; }
  body { margin:0;padding:0;-webkit-text-size-adjust:100%;-ms-text-size-adjust:100%; }
  table, td { border-collapse:collapse;mso-table-lspace:0pt;mso-table-rspace:0pt; }
  img { border:0;height:auto;line-height:100%;outline:none;text-decoration:none;-ms-interpolation-mode:bicubic; }
  p { display:block;margin:13px 0; }
</style>
<!--[if mso]><noscript><xml><o:OfficeDocumentSettings><o:PixelsPerInch>96</o:PixelsPerInch></o:OfficeDocumentSettings></xml></noscript><![endif]-->
<!--[if lte mso 11]><style type="text/css">.mj-outlook-group-fix { width:100% !important; }</style><![endif]-->
<style type="text/css">@import url(https://fonts.example/css?family=Ubuntu);</style>
<style type="text/css">
  @media only screen and (min-width:480px) {
    .mj-column-per-100 { width:100% !important; max-width: 100%; }
    .mj-column-per-50 { width:50% !important; max-width: 50%; }
  }
</style>
<style media="screen and (min-width:480px)">.moz-text-html .mj-column-per-50 { width:50% !important; max-width: 50%; }</style>
<style type="text/css">
  @media only screen and (max-width:479px) { table.mj-full-width-mobile { width: 100% !important; } td.mj-full-width-mobile { width: auto !important; } .desk{display:none!important} }
  .phone{display:none;max-height:0;overflow:hidden}
  @media only screen and (max-width:479px) { .phone{display:block!important;max-height:none!important} }
</style>`,
    `<div style="display:none;font-size:1px;color:#ffffff;line-height:1px;max-height:0px;max-width:0px;opacity:0;overflow:hidden;">HIDDEN preheader</div>
<div style="background-color:#e7e7e7;" lang="und" dir="auto">
 <div style="background:#045FB4;background-color:#045FB4;margin:0px auto;max-width:600px;">
  <table align="center" border="0" cellpadding="0" cellspacing="0" role="presentation" style="background:#045FB4;background-color:#045FB4;width:100%;"><tbody><tr>
   <td style="direction:ltr;font-size:0px;padding:20px 0;text-align:center;">
    <div class="mj-column-per-50 mj-outlook-group-fix" style="font-size:0px;text-align:left;direction:ltr;display:inline-block;vertical-align:top;width:100%;">
     <table border="0" cellpadding="0" cellspacing="0" role="presentation" style="vertical-align:top;" width="100%"><tbody><tr>
      <td align="left" style="font-size:0px;padding:10px 25px;word-break:break-word;"><div style="font-family:Ubuntu, Helvetica, Arial, sans-serif;font-size:20px;font-weight:bold;line-height:1;text-align:left;color:#FFFFFF;">Your order</div></td></tr></tbody></table>
    </div>
    <div class="mj-column-per-50 mj-outlook-group-fix" style="font-size:0px;text-align:left;direction:ltr;display:inline-block;vertical-align:top;width:100%;">
     <table border="0" cellpadding="0" cellspacing="0" role="presentation" width="100%"><tbody><tr>
      <td align="center" vertical-align="middle" style="font-size:0px;padding:10px 25px;word-break:break-word;">
       <table border="0" cellpadding="0" cellspacing="0" role="presentation" style="border-collapse:separate;line-height:100%;"><tbody><tr><td align="center" bgcolor="#f45e43" role="presentation" style="border:none;border-radius:3px;cursor:auto;mso-padding-alt:10px 25px;background:#f45e43;" valign="middle">
        <a href="https://shop.example/order" style="display:inline-block;background:#f45e43;color:#ffffff;font-family:Helvetica;font-size:13px;font-weight:normal;line-height:120%;margin:0;text-decoration:none;text-transform:none;padding:10px 25px;mso-padding-alt:0px;border-radius:3px;" target="_blank">See it</a></td></tr></tbody></table></td></tr></tbody></table>
    </div></td></tr></tbody></table>
 </div>
 <p class="desk" style="color:#333333">DESK only</p><p class="phone" style="color:#123456">PHONE only</p>
</div>`,
    ' style="word-spacing:normal;background-color:#e7e7e7;"',
  ),

  outlook: `<!doctype html><html xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:w="urn:schemas-microsoft-com:office:word"><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><meta name="Generator" content="Microsoft Word 15 (filtered medium)">
<!--[if !mso]><style>v\\:* {behavior:url(#default#VML);} .shape {behavior:url(#default#VML);}</style><![endif]-->
<style><!--
/* Font Definitions */
@font-face
	{font-family:"Cambria Math";
	panose-1:2 4 5 3 5 4 6 3 2 4;}
@font-face {font-family:Calibri; panose-1:2 15 5 2 2 2 4 3 2 4;}
/* Style Definitions */
p.MsoNormal, li.MsoNormal, div.MsoNormal
	{margin:0in;
	margin-bottom:.0001pt;
	font-size:11.0pt;
	font-family:"Calibri",sans-serif;
	mso-fareast-language:EN-US;}
a:link, span.MsoHyperlink
	{mso-style-priority:99;
	color:#0563C1;
	text-decoration:underline;}
p.MsoListParagraph {margin-top:0in;margin-right:0in;margin-bottom:0in;margin-left:.5in;font-size:11.0pt;}
span.EmailStyle17
	{mso-style-type:personal-compose;
	font-family:"Calibri",sans-serif;
	color:windowtext;}
.MsoChpDefault
	{mso-style-type:export-only;
	mso-fareast-language:EN-US;}
@page WordSection1
	{size:8.5in 11.0in;
	margin:1.0in 1.0in 1.0in 1.0in;}
div.WordSection1
	{page:WordSection1;}
/* List Definitions */
@list l0
	{mso-list-id:1;}
--></style><!--[if gte mso 9]><xml><o:shapedefaults v:ext="edit" spidmax="1026" /></xml><![endif]--></head>
<body lang="EN-US" link="#0563C1" vlink="#954F72" style="word-wrap:break-word"><div class="WordSection1">
<p class="MsoNormal">Dear all,<o:p></o:p></p><p class="MsoNormal"><o:p>&nbsp;</o:p></p>
<p class="MsoListParagraph" style="text-indent:-.25in;mso-list:l0 level1 lfo1"><![if !supportLists]><span style="font-family:Symbol"><span style="mso-list:Ignore">·<span style="font:7.0pt &quot;Times New Roman&quot;">&nbsp;&nbsp;</span></span></span><![endif]>first point<o:p></o:p></p>
<p class="MsoNormal"><b><span style="color:#C00000">Due on Friday</span></b>, see <a href="https://intranet.example/plan">the plan</a>.<o:p></o:p></p>
<p class="MsoNormal"><span style="mso-fareast-language:EN-GB;display:none">HIDDEN field</span><span class="EmailStyle17">Kind regards<o:p></o:p></span></p>
<table class="MsoTableGrid" border="1" cellspacing="0" cellpadding="0" style="border-collapse:collapse;border:none"><tr><td width="200" valign="top" style="width:150.0pt;border:solid windowtext 1.0pt;background:#D9E2F3;padding:0in 5.4pt 0in 5.4pt"><p class="MsoNormal">Cell</p></td></tr></table>
</div></body></html>`,

  mailchimp: document(
    `<style type="text/css">
		p{ margin:10px 0; padding:0; }
		table{ border-collapse:collapse; }
		h1,h2,h3{ display:block; margin:0; padding:0; }
		body,#bodyTable,#bodyCell{ height:100%; margin:0; padding:0; width:100%; }
		.mcnPreviewText{ display:none !important; }
		#outlook a{ padding:0; }
		.ReadMsgBody{ width:100%; } .ExternalClass{ width:100%; }
		a[href^=tel],a[href^=sms]{ color:inherit; cursor:default; text-decoration:none; }
		a[x-apple-data-detectors]{ color:inherit !important; text-decoration:none !important; font-size:inherit !important; }
		.templateContainer{ max-width:600px !important; }
		a.mcnButton{ display:block; }
		/*@editable*/ body,#bodyTable{ /*@editable*/background-color:#FAFAFA; }
		#bodyCell{ border-top:0; }
		#templateHeader{ background-color:#2BAADF; border-bottom:2px solid #EAEAEA; padding-top:9px; }
		#templateHeader .mcnTextContent,#templateHeader .mcnTextContent p{ color:#FFFFFF; font-family:Helvetica; font-size:16px; line-height:150%; text-align:left; }
		#templateBody .mcnTextContent p{ color:#202020; font-size:16px }
		.footer{ color:#656565!important; font-size:12px }
	@media only screen and (min-width:768px){ .templateContainer{ width:600px !important; } }
	@media only screen and (max-width: 480px){ body,table,td,p,a,li,blockquote{ -webkit-text-size-adjust:none !important; } h1{ font-size:22px !important; line-height:125% !important; } .desk{display:none!important} }
</style>`,
    `<span class="mcnPreviewText" style="display:none; font-size:0px; line-height:0px; max-height:0px; max-width:0px; opacity:0; overflow:hidden; visibility:hidden; mso-hide:all;">HIDDEN preview</span>
<center><table align="center" border="0" cellpadding="0" cellspacing="0" height="100%" width="100%" id="bodyTable"><tr><td align="center" valign="top" id="bodyCell">
<table border="0" cellpadding="0" cellspacing="0" width="100%" class="templateContainer"><tr><td valign="top" id="templateHeader"><div class="mcnTextContent"><h1 style="color:#ffffff;font-size:26px">News of May</h1><p>Hello there</p></div></td></tr>
<tr><td valign="top" id="templateBody"><div class="mcnTextContent"><p>A paragraph with <a href="tel:+15550100">a number</a>.</p><p class="desk">DESK part</p></div>
<table cellpadding="0" cellspacing="0" style="border-collapse:separate !important;border-radius:4px;background-color:#2BAADF;"><tr><td align="center" style="font-family:Arial;font-size:16px;padding:15px;"><a class="mcnButton" href="https://news.example/read" style="font-weight:bold;letter-spacing:normal;line-height:100%;text-align:center;text-decoration:none;color:#FFFFFF;">Read more</a></td></tr></table></td></tr>
<tr><td class="footer"><em>Copyright</em></td></tr></table></td></tr></table></center>`,
  ),

  stripe: document(
    `<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">
<style>
:root{color-scheme:light dark;supported-color-schemes:light dark}
.Wrapper{background-color:#f6f9fc}
.Title a{color:#414552 !important}
.Button-link{background-color:#635bff;border-radius:6px;color:#ffffff !important}
@media (prefers-color-scheme: dark) {
  .Wrapper{background-color:#0a2540 !important} .Section{background-color:#1a1b25 !important}
  .Copy,.Title a{color:#e3e8ee !important} .Button-link{background-color:#7a73ff !important}
}
@media all and (max-width:600px){ .Section{width:100% !important} .Title{font-size:20px !important} }
.st-preheader *{display:none!important}
u + .body .gmailfix{display:none}
</style>`,
    `<div class="st-preheader"><span>HIDDEN receipt number</span></div>
<table class="Wrapper" width="100%" border="0" cellpadding="0" cellspacing="0"><tr><td align="center"><table class="Section" width="600" style="background-color:#ffffff;border-radius:12px"><tr><td class="Title" style="font-size:24px;font-weight:600;padding:32px"><a href="https://pay.example/" style="text-decoration:none">Receipt from Example</a></td></tr>
<tr><td class="Copy" style="color:#687385;font-size:14px;line-height:20px;padding:0 32px"><span style="text-transform:uppercase;letter-spacing:.5px">Amount paid</span><br><strong style="color:#1a1a1a">$20.00</strong></td></tr>
<tr><td style="padding:32px"><a class="Button-link" href="https://pay.example/r" style="display:inline-block;padding:12px 20px;text-decoration:none"><span style="font-weight:500">View receipt</span></a></td></tr></table></td></tr></table>`,
    ' class="body" style="margin:0;padding:0"',
  ),

  github: document(
    `<style>
body { font-family: -apple-system,BlinkMacSystemFont,"Segoe UI",Helvetica,Arial,sans-serif; font-size: 14px; }
.octicon { fill: currentColor }
.btn-primary{color:#fff!important;background-color:#1f883d;border:1px solid rgba(27,31,36,.15);border-radius:6px;padding:.5em 1em;display:inline-block}
.width-full{width:100%!important}.text-gray-light{color:#6a737d!important}
pre,code{font-family:SFMono-Regular,Consolas,monospace;background:#f6f8fa}
td.blob-code-addition{background-color:#e6ffec} td.blob-code-deletion{background-color:#ffebe9}
</style>`,
    `<table class="width-full" width="100%"><tr><td><p><strong>octo</strong> left a comment <span class="text-gray-light">(project#1)</span></p><pre style="padding:16px;overflow:auto"><code>const a = 1;</code></pre>
<table><tr><td class="blob-code-deletion">- old</td></tr><tr><td class="blob-code-addition">+ new</td></tr></table>
<a class="btn-primary" href="https://forge.example/1">View it on GitHub</a></td></tr></table>
<p style="font-size:small;-webkit-text-size-adjust:none;color:#666;">&mdash;<br>Reply to this email directly.<img src="https://forge.example/beacon.gif" height="1" width="1" alt="" /></p>
<script type="application/ld+json">[{"HIDDEN":"json"}]</script><span style="color: transparent; font-size: 0; display: none; visibility: hidden; overflow: hidden; opacity: 0; width: 0; height: 0; max-width: 0; max-height: 0; mso-hide: all">HIDDEN id</span>`,
  ),

  gmail: `<div dir="ltr">Sure, see you then.<div><br></div><div><font color="#0000ff" size="4" face="arial, sans-serif"><b>Anna</b></font></div><div style="background-color:rgb(255,242,204);color:rgb(34,34,34)">marked</div></div><br><div class="gmail_quote"><div dir="ltr" class="gmail_attr">On Tue, 1 Jul 2025 at 10:52, Ben &lt;<a href="mailto:ben@b.example">ben@b.example</a>&gt; wrote:<br></div><blockquote class="gmail_quote" style="margin:0px 0px 0px 0.8ex;border-left:1px solid rgb(204,204,204);padding-left:1ex"><div>Tomorrow at <span style="color:#cc0000">nine</span>?</div></blockquote></div>`,

  "apple mail": `<html><head><meta http-equiv="content-type" content="text/html; charset=utf-8"></head><body style="overflow-wrap: break-word; -webkit-nbsp-mode: space; line-break: after-white-space;">Hi Ben,<div><br></div><div><span style="caret-color: rgb(0, 0, 0); color: rgb(0, 0, 0); font-family: HelveticaNeue; font-size: 18px; font-variant-caps: normal; letter-spacing: normal; orphans: auto; text-indent: 0px; text-transform: none; white-space: normal; widows: auto; word-spacing: 0px; -webkit-text-stroke-width: 0px; text-decoration: none; float: none; display: inline !important;">a larger line</span></div><div id="AppleMailSignature" dir="ltr">Sent from my phone</div></body></html>`,

  salesforce: document(
    `<style type="text/css">.appearance_hidden{visibility:hidden} .zero{font-size:0;line-height:0} td{font-family:arial;font-size:10pt}</style>`,
    `<center><table id="topTable" height="450" width="500" cellpadding="0" cellspacing="0"><tr valign="top"><td style="vertical-align:top; height:100; text-align:left; background-color:#FFFFFF; bLabel:header"><img border="0" src="https://crm.example/logo.gif" alt="Logo"></td></tr>
<tr valign="top"><td style="height:5; background-color:#AAAAFF; bLabel:accent1;"></td></tr><tr valign="top"><td styleInsert="1" height="300" style="color:#000000; font-size:12pt; background-color:#FFFFFF; font-family:arial; bLabel:main;">Dear <font color="#800000">Ms Jones</font>, your <a href="https://crm.example/12">case 00012</a> is open.</td></tr></table></center>
<div class="appearance_hidden">HIDDEN thread id</div><div class="zero">HIDDEN ref</div><p hidden>HIDDEN attribute</p><div style="clip:rect(0,0,0,0);position:absolute">HIDDEN clip</div>`,
    ' bgcolor="#dddddd" text="#202020" link="#800000"',
  ),

  sendgrid: document(
    `<style type="text/css">
body, p, div { font-family: arial; font-size: 14px; } body { color: #000000; } body a { color: #1188E6; text-decoration: none; }
p { margin: 0; padding: 0; } table.wrapper { width:100% !important; table-layout: fixed; -webkit-font-smoothing: antialiased; }
img.max-width { max-width: 100% !important; } .column.of-2 { width: 50%; } .column.of-3 { width: 33.333%; }
ul ul ul ul { list-style-type: disc !important; } [class~="pill"]{border-radius:20px} [data-muid="x1"] td{color:#00aa00}
@media screen and (max-width:480px) { .preheader .rightColumnContent { text-align: left !important; } .columns { width: 100% !important; } .column { display: block !important; width: 100% !important; } }
</style>`,
    `<center class="wrapper" data-link-color="#1188E6" style="font-size:14px; font-family:arial; color:#000000; background-color:#FFFFFF;"><div class="webkit"><table cellpadding="0" cellspacing="0" border="0" width="100%" class="wrapper" bgcolor="#F0F0F0">
<tr><td><table class="module" role="module" data-type="text" width="100%" style="table-layout:fixed;" data-muid="x1"><tr><td style="padding:18px 0; line-height:22px; text-align:inherit;" height="100%" valign="top" role="module-content"><div style="font-family:inherit">Welcome <a href="https://app.example/">aboard</a></div></td></tr></table>
<table border="0" cellpadding="0" cellspacing="0" width="100%"><tr><td align="center" bgcolor="#333333" class="inner-td pill button" style="border-radius:6px; font-size:16px;"><a href="https://app.example/go" style="background-color:#333333; border:1px solid #333333; border-radius:6px; color:#ffffff; display:inline-block; font-size:14px; padding:12px 18px;">Confirm</a></td></tr></table>
<table class="column of-2"><tr><td>left</td></tr></table><table class="module preheader preheader-hide" style="display: none !important; mso-hide: all; visibility: hidden; opacity: 0; color: transparent; height: 0; width: 0;"><tr><td><p>HIDDEN pre</p></td></tr></table></td></tr></table></div></center>`,
  ),

  substack: document(
    `<style>
@media all and (-ms-high-contrast: none), (-ms-high-contrast: active) { .typography .markup table.image-wrapper img { width: 550px } }
.post h1.title{font-weight:700;margin:0;line-height:36px;font-size:32px} .subtitle{font-size:18px;color:rgb(119,119,119)}
.body.markup p{margin:0 0 20px 0;color:rgb(54,55,55);line-height:26px;font-size:16px} .body.markup blockquote{border-left:4px solid #ff6719;margin:20px 0;padding:0;font-style:italic}
.body.markup blockquote p{margin-left:20px} .button{background-color:#ff6719} .button:hover{opacity:.8} a.footnote-anchor{vertical-align:super;font-size:10px}
.body.markup > p:first-child{font-weight:bold} .body.markup p:nth-of-type(2){color:hsl(210, 50%, 40%)} .body.markup p:not(.plain):last-child{text-decoration:underline}
h4 ~ .aside{background:linear-gradient(90deg,#222222,#444444);color:#fafafa}
</style>`,
    `<div class="post typography"><h1 class="title"><a href="https://letter.example/p" style="color:#363737;text-decoration:none">On letters</a></h1><h3 class="subtitle">A subtitle</h3>
<div class="body markup"><p>First</p><p>Second<a class="footnote-anchor" href="https://letter.example/p#1">1</a></p><blockquote><p>Quoted</p></blockquote><p class="plain">Plain</p><p>Last</p></div>
<a class="button" href="https://letter.example/sub" style="display:inline-block;box-sizing:border-box;padding:10px 20px;font-size:15px;color:#fff;border-radius:4px;text-decoration:none">Subscribe</a><h4>Head</h4><div class="aside">Aside</div></div>`,
  ),

  "calendar invite": `<html><head><title></title></head><body><span itemscope itemtype="http://schema.org/InformAction"><span style="display:none" itemprop="about" itemscope><meta itemprop="description" content="HIDDEN meta">HIDDEN itemprop</span></span>
<div style=""><table border="0" cellpadding="0" cellspacing="0" role="presentation" align="center" style="width:100%;" class="body-container"><tbody><tr><td style="" class="" align="left">
<style>.body-container{font-family:Roboto,Helvetica,Arial,sans-serif} .main-container td{border:1px solid #dadce0;border-radius:8px;padding:24px} .primary-text{color:#3c4043 !important} .grey{color:#70757a} .accent{background-color:#1a73e8;color:#fff!important;font-weight:700;padding:10px 25px;text-decoration:none;display:inline-block;border-radius:5px}
@media only screen and (max-width:580px){ #side{display:none} .main-container td{padding:8px} }</style>
<table class="main-container" style="width:100%"><tr><td><h2 class="primary-text" style="font-size:14px;color:#ff0000;margin:0">When</h2><span class="primary-text">Friday 4 Jul 2025, 10:00</span> <span class="grey">(Europe/Berlin)</span><div id="side">DESK organizer</div><a class="accent" href="https://cal.example/yes">Yes</a></td></tr></table></td></tr></tbody></table></div></body></html>`,

  receipt: document(
    `<style>*{box-sizing:border-box} table.lines{width:100%;border-spacing:0} table.lines th{background:#2d3748;color:#edf2f7;text-align:left;padding:8px} table.lines tr:nth-child(even) td{background:#f7fafc} table.lines td+td{text-align:right;font-weight:600} .total td{border-top:2px solid #2d3748;font-size:18px}
@media print{.noprint{display:none}} @media screen and (min-width:0){.paper{display:none}} .note::before{content:"HIDDEN generated"} </style>`,
    `<div style="position:absolute;left:-9999px;top:0">HIDDEN off</div><div style="text-indent:-9999px">HIDDEN indent</div><p class="noprint" style="color:#2b6cb0;font:italic 600 15px/1.4 Georgia, serif">Thank you</p>
<table class="lines"><tr><th>Item</th><th>Price</th></tr><tr><td>Tea</td><td>4.00</td></tr><tr><td>Milk</td><td>1.50</td></tr><tr class="total"><td>Total</td><td>5.50</td></tr></table><p class="paper">HIDDEN on screen</p><p class="note" style="color:rgba(0,0,0,.6);background:hsla(120,60%,70%,.3)">A note</p>
<div style="visibility:hidden">HIDDEN a<b style="visibility:visible;color:#008080">seen b</b></div><div style="opacity:0">HIDDEN faded</div><div style="max-height:0;overflow:hidden">HIDDEN low</div><div style="width:1px;height:1px;overflow:hidden">HIDDEN tiny</div><div style="clip-path:inset(50%)">HIDDEN cut</div>`,
  ),

  "dark design": document(
    `<meta name="color-scheme" content="dark light"><style>body{background:#111111;color:#eeeeee} a{color:#8ab4f8} .card{background-color:#1e1e1e;border:1px solid #333333;padding:16px}</style>`,
    `<div class="card"><h2>Night</h2><p>Text on dark with <a href="https://night.example/">a link</a></p><button style="background:#8ab4f8;color:#111111;border:0;padding:8px 16px;display:inline-block;text-align:start;font:15px/1.5 system-ui,sans-serif">Press</button><form class="card" style="color:#ffcc00">in a form</form></div>`,
  ),
};
