/**
 * The demo's mail, as data: a small workshop that makes lamps. Outside addresses are at names that RFC 2606 and RFC
 * 6761 reserve, so that mail sent by mistake reaches nobody.
 */

import { crc32, deflateSync } from "node:zlib";
import type { ComposedAttachment } from "../message/compose.ts";

export interface DemoMessage {
  /** Sender as in a header: `Name <address>`. */
  from: string;
  to: string;
  cc?: string;
  /** Hours before the demo was loaded. */
  hoursAgo: number;
  text: string;
  html?: string;
  attachments?: ComposedAttachment[];
}

export interface DemoConversation {
  /** The mailbox it is in. */
  mailbox: string;
  /** A second mailbox here that took part. */
  alsoIn?: string;
  subject: string;
  messages: DemoMessage[];
  labels?: string[];
  starred?: true;
  unread?: true;
  spam?: true;
  folder?: "archive" | "trash";
  /** Hours from now. */
  snoozedFor?: number;
}

export const ADA = "ada@example.test";
export const BEN = "ben@example.test";
export const SUPPORT = "support@example.test";
/** Aliases, and the mailboxes they lead to. */
export const ALIASES = {
  "hello@example.test": ADA,
  "orders@example.test": ADA,
  "help@example.test": SUPPORT,
  "wholesale@example.test": SUPPORT,
} as const;

const ada = `Ada Okafor <${ADA}>`;
const ben = `Ben Lindqvist <${BEN}>`;
const support = `Lantern Works Support <${SUPPORT}>`;
const ines = "Inês Carvalho <ines@nordwood.example>";
const kobayashi = "小林 花 <hana@kobo.example>";
const somchai = "สมชาย ใจดี <somchai@baansuan.example>";
const priya = "Priya Raman <priya@brightledger.example>";
const tom = "Tom Hale <tom.hale@example.org>";
const juergen = "Jürgen Groß <j.gross@leuchtenhaus.example>";
const mira = "Mira Haddad <mira@example.net>";

const attached = (filename: string, contentType: string, content: Uint8Array | string): ComposedAttachment => ({
  filename,
  contentType,
  content: typeof content === "string" ? Buffer.from(content) : content,
  inline: false,
});

const pictured = (filename: string, contentId: string, content: Uint8Array): ComposedAttachment => ({
  filename,
  contentType: "image/png",
  content,
  inline: true,
  contentId,
});

const QUOTE = makeOnePagePdf([
  "Nordwood Lda.",
  "Quotation 2291",
  "",
  "120 oak boards, 18 mm, kiln dried",
  "EUR 2,340.00 net",
]);
const INVOICE = makeOnePagePdf([
  "Bright Ledger",
  "Invoice BL-0417",
  "",
  "Bookkeeping, quarter 3",
  "EUR 480.00",
  "Due in 14 days",
]);
const CUTTING_LIST = "part,length_mm,width_mm,count\nbase,180,180,40\nstem,420,36,40\nshade ring,300,24,80\n";

const INVITATION = [
  "BEGIN:VCALENDAR",
  "VERSION:2.0",
  "PRODID:-//Design Week//Stands//EN",
  "BEGIN:VEVENT",
  "UID:stand-14@designweek.example",
  "DTSTAMP:20260105T080000Z",
  "DTSTART:20260312T090000Z",
  "DTEND:20260312T100000Z",
  "SUMMARY:Stand 14: walk-through",
  "LOCATION:Hall 2",
  "END:VEVENT",
  "END:VCALENDAR",
  "",
].join("\r\n");

export const CONVERSATIONS: readonly DemoConversation[] = [
  {
    mailbox: ADA,
    subject: "Oak boards for the spring run",
    labels: ["Suppliers", "Spring"],
    starred: true,
    unread: true,
    messages: [
      {
        from: ada,
        to: ines,
        hoursAgo: 196,
        text: "Hi Inês,\n\nwe are planning forty table lamps for spring and need about 120 boards of oak, 18 mm. Could you quote, and say when you could deliver?\n\nBest,\nAda",
      },
      {
        from: ines,
        to: ada,
        hoursAgo: 190,
        text: "Hello Ada,\n\ngood to hear from you. Kiln dried or air dried? The kiln is free from next week, so both would work.\n\nInês",
      },
      { from: ada, to: ines, hoursAgo: 189, text: "Kiln dried, please. We cannot risk the stems moving again." },
      {
        from: ines,
        to: ada,
        hoursAgo: 170,
        text: "Understood. The quotation is attached: 120 boards, 18 mm, EUR 2,340 net, delivered.\n\nInês",
        attachments: [attached("Quotation 2291.pdf", "application/pdf", QUOTE)],
      },
      {
        from: ada,
        to: ines,
        cc: ben,
        hoursAgo: 166,
        text: "Thank you! Ben has made the cutting list, so you can see where knots would hurt. Would ten percent off be possible if we also take the ash?",
        attachments: [attached("cutting list.csv", "text/csv", CUTTING_LIST)],
      },
      {
        from: ines,
        to: ada,
        cc: ben,
        hoursAgo: 142,
        text: "I asked. Six percent with the ash, and we pay the pallet. Does that work?",
      },
      { from: ada, to: ines, cc: ben, hoursAgo: 140, text: "It does. Please go ahead." },
      {
        from: ines,
        to: ada,
        cc: ben,
        hoursAgo: 74,
        text: "The boards are in the kiln. I will send a picture when the first ones come out.",
      },
      {
        from: ines,
        to: ada,
        cc: ben,
        hoursAgo: 5,
        text: "First boards are out, moisture at 8 percent. The truck leaves on Thursday and should reach you on Friday before noon. Is somebody there to unload?",
        html: '<p>First boards are out, <b>moisture at 8 percent</b>.</p><p><img src="cid:boards@nordwood.example" alt="Boards under the lamp" width="96"></p><p>The truck leaves on Thursday and should reach you on <u>Friday before noon</u>. Is somebody there to unload?</p>',
        attachments: [pictured("boards.png", "boards@nordwood.example", lampPicture(96, 64, [222, 184, 135]))],
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "A lamp for my grandmother's desk",
    labels: ["Orders"],
    unread: true,
    messages: [
      {
        from: mira,
        to: "orders@example.test",
        hoursAgo: 2,
        text: "Hello,\n\ndo you engrave the base? I would like the small desk lamp in ash with “Pour Lina, qui lit tard” on it. It should arrive before the 20th.\n\nMany thanks\nMira Haddad",
        html: '<div>Hello,<br><br>do you engrave the base? I would like the <a href="https://shop.example.test/desk-lamp">small desk lamp</a> in <span style="color: #8a5a2b">ash</span> with <i>“Pour Lina, qui lit tard”</i> on it. It should arrive before the 20th.<br><br>Many thanks<br>Mira Haddad</div>',
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "秋の展示会について",
    labels: ["Exhibitions"],
    messages: [
      {
        from: kobayashi,
        to: ada,
        hoursAgo: 51,
        text: "オカフォー様\n\nお世話になっております。工房の小林です。\n秋の展示会で御社の照明を六点お借りしたいのですが、可能でしょうか。\n会期は十月三日から十二日までです。\n\n小林 花",
      },
      {
        from: ada,
        to: kobayashi,
        hoursAgo: 47,
        text: "小林様\n\nご連絡ありがとうございます。六点、喜んでお貸しします。\n来週、梱包の寸法をお送りします。\n\nAda Okafor",
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "ขอใบเสนอราคาโคมไฟตั้งโต๊ะ",
    unread: true,
    messages: [
      {
        from: somchai,
        to: "hello@example.test",
        hoursAgo: 8,
        text: "สวัสดีครับ\n\nโรงแรมของเราสนใจโคมไฟตั้งโต๊ะไม้โอ๊กจำนวน 24 ตัว ขอใบเสนอราคารวมค่าจัดส่งมากรุงเทพฯ ด้วยครับ\n\nขอบคุณครับ\nสมชาย ใจดี",
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "Invoice BL-0417",
    labels: ["Bookkeeping"],
    unread: true,
    messages: [
      {
        from: priya,
        to: ada,
        hoursAgo: 28,
        text: "Dear Ada,\n\nattached is our invoice for the third quarter, due in 14 days. Two receipts from August are still missing: the drill bits and the van.\n\nKind regards,\nPriya",
        attachments: [attached("Invoice BL-0417.pdf", "application/pdf", INVOICE)],
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "Stand 14: walk-through in Hall 2",
    snoozedFor: 40,
    messages: [
      {
        from: "Design Week Stands <stands@designweek.example>",
        to: ada,
        cc: ben,
        hoursAgo: 33,
        text: "Please confirm your walk-through of stand 14. The invitation is attached; power is one 16 A outlet at the back wall.",
        attachments: [attached("invitation.ics", "text/calendar", INVITATION)],
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "Light & Wood, issue 31: the quiet return of the reading lamp",
    folder: "archive",
    messages: [
      {
        from: "Light & Wood <letters@lightandwood.example>",
        to: ada,
        hoursAgo: 99,
        text: "The quiet return of the reading lamp. Three workshops, three answers.\n\nRead it: https://lightandwood.example/31",
        html: '<table width="100%" style="background-color: #f6f1e7"><tr><td align="center"><h1 style="color: #5b3a1a">The quiet return of the reading lamp</h1><img src="cid:cover@lightandwood.example" alt="A lamp in a dark room" width="160"><p>Three workshops, three answers.</p><p><a href="https://lightandwood.example/31">Read it</a></p><p style="font-size: 11px"><a href="https://lightandwood.example/leave">Unsubscribe</a></p></td></tr></table>',
        attachments: [pictured("cover.png", "cover@lightandwood.example", lampPicture(160, 120, [255, 214, 120]))],
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "Pictures for your piece on small workshops",
    messages: [
      {
        from: ada,
        to: "Noor de Wit <noor@weekendpaper.example>",
        hoursAgo: 22,
        text: "Dear Noor,\n\nas promised, one of the pictures from the evening shift. Print size follows when you know the page.\n\nAda",
        attachments: [attached("evening shift.png", "image/png", lampPicture(320, 200, [255, 190, 90]))],
      },
    ],
  },
  {
    mailbox: ADA,
    alsoIn: BEN,
    subject: "Friday delivery",
    messages: [
      {
        from: ada,
        to: ben,
        hoursAgo: 4,
        text: "Ben, the oak comes on Friday before noon. Can you be there to unload? I am at the bank until one.",
      },
      { from: ben, to: ada, hoursAgo: 3, text: "Sure. I will borrow the pallet jack from next door." },
    ],
  },
  {
    mailbox: ADA,
    subject: "YOUR PARCEL IS WAITING, CONFIRM NOW",
    spam: true,
    unread: true,
    messages: [
      {
        from: "Parcel Centre <notice@parcel-centre.invalid>",
        to: ada,
        hoursAgo: 12,
        text: "Dear customer, your parcel is held. Pay the fee of 1.99 within 24 hours: http://parcel-centre.invalid/pay",
        html: '<p>Dear customer, your parcel is <b style="color: red">held</b>.</p><p><a href="http://parcel-centre.invalid/pay">PAY THE FEE OF 1.99</a> within 24 hours.</p>',
      },
    ],
  },
  {
    mailbox: ADA,
    subject: "Last day: 30% off vinyl banners",
    folder: "trash",
    messages: [
      {
        from: "Banner Barn <deals@bannerbarn.example>",
        to: "hello@example.test",
        hoursAgo: 120,
        text: "Today only: thirty percent off all vinyl banners. Use the code FLAP30.",
      },
    ],
  },
  {
    mailbox: SUPPORT,
    subject: "Reading lamp flickers after an hour",
    labels: ["Warranty"],
    messages: [
      {
        from: tom,
        to: "help@example.test",
        hoursAgo: 80,
        text: "Hi,\n\nmy reading lamp (bought in May, order 3071) starts to flicker after about an hour. Picture below, though of course it behaves when photographed.\n\nTom",
        html: '<p>Hi,</p><p>my reading lamp (bought in May, order 3071) starts to flicker after about an hour. Picture below, though of course it behaves when photographed.</p><p><img src="cid:lamp@example.org" alt="The lamp"></p><p>Tom</p>',
        attachments: [pictured("lamp.png", "lamp@example.org", lampPicture(120, 90, [250, 250, 210]))],
      },
      {
        from: support,
        to: tom,
        hoursAgo: 76,
        text: "Hello Tom,\n\nthank you for the picture. That sounds like the driver in the base. A new one is on its way to you, with the two screws you need. Tell us if it does not help.\n\nBen, Lantern Works",
      },
      { from: tom, to: support, hoursAgo: 26, text: "The new driver did it. Not a blink in two evenings. Thank you!" },
    ],
  },
  {
    mailbox: SUPPORT,
    subject: "Anfrage: 60 Pendelleuchten für den Fachhandel",
    labels: ["Wholesale"],
    starred: true,
    unread: true,
    messages: [
      {
        from: juergen,
        to: "wholesale@example.test",
        hoursAgo: 7,
        text: "Sehr geehrte Damen und Herren,\n\nwir führen in Köln und Düsseldorf drei Geschäfte und würden gern sechzig Pendelleuchten in Esche bestellen. Gewähren Sie Händlern einen Nachlass, und wie lange ist die Lieferzeit?\n\nMit freundlichen Grüßen\nJürgen Groß",
      },
    ],
  },
  {
    mailbox: SUPPORT,
    subject: "Can I return the blue shade?",
    unread: true,
    messages: [
      {
        from: "Elif Demir <elif.demir@example.com>",
        to: "help@example.test",
        hoursAgo: 1,
        text: "Hello, the blue shade is lovely but too wide for our shelf. It is unused. May I send it back, and who pays the postage?",
      },
    ],
  },
  {
    mailbox: BEN,
    subject: "Your ticket: Timber Forum",
    folder: "archive",
    labels: ["Travel"],
    messages: [
      {
        from: "Timber Forum <tickets@timberforum.example>",
        to: ben,
        hoursAgo: 260,
        text: "Thank you for registering. Show the attached ticket at the entrance.",
        attachments: [
          attached("ticket.pdf", "application/pdf", makeOnePagePdf(["Timber Forum", "Ben Lindqvist", "Seat B 17"])),
        ],
      },
    ],
  },
  {
    mailbox: BEN,
    subject: "Pallet jack",
    unread: true,
    messages: [
      {
        from: "Olu Adeyemi <olu@joinery.example>",
        to: ben,
        hoursAgo: 2.5,
        text: "Take it whenever you like, the gate is open from seven. Mind the left wheel.",
      },
    ],
  },
];

/* The files attached to the demo's mail: made here, small, and valid, so that they open when downloaded. */

/** A one-page PDF with these lines of ASCII text. */
export function makeOnePagePdf(lines: readonly string[]): Uint8Array {
  const escaped = lines.map((line) => line.replace(/[\\()]/g, "\\$&"));
  const content = `BT /F1 12 Tf 16 TL 72 760 Td ${escaped.map((line) => `(${line}) Tj T*`).join(" ")} ET`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  let file = "%PDF-1.4\n";
  const offsets = objects.map((object, i) => {
    const offset = file.length;
    file += `${i + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const start = file.length;
  const entries = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  file += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${entries}`;
  file += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return Buffer.from(file, "latin1");
}

type Colour = readonly [red: number, green: number, blue: number];

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const frame = Buffer.alloc(4);
  const sum = Buffer.alloc(4);
  frame.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([frame, body, sum]);
}

/** A PNG picture of a lit lamp in a dark room: light falling off from its middle. */
export function lampPicture(width: number, height: number, light: Colour): Uint8Array {
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const distance = Math.hypot((x - width / 2) / width, (y - height / 3) / height);
      const brightness = Math.max(0.08, 1 - distance * 1.8);
      for (const [i, level] of light.entries()) {
        rows[y * (1 + width * 3) + 1 + x * 3 + i] = Math.round(level * brightness);
      }
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits a channel, RGB.
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array()),
  ]);
}

/** Mail that an agent wrote and that waits for Ada: a draft, or an answer that goes out once she approves it. */
export interface DemoAnswer {
  kind: "draft" | "held";
  /** Subject of the conversation that it answers. */
  answers: string;
  from: string;
  to: string;
  cc?: string;
  hoursAgo: number;
  text: string;
}

export const AGENT = "Answering agent";

export const ANSWERS: readonly DemoAnswer[] = [
  {
    kind: "draft",
    answers: "A lamp for my grandmother's desk",
    from: "Ada Okafor <orders@example.test>",
    to: mira,
    hoursAgo: 1.5,
    text: "Hello Mira,\n\nyes, we engrave the base: up to 40 letters, in oak or ash. It takes two days more, so a lamp ordered today would be with you on the 18th.\n\nAda",
  },
  {
    kind: "held",
    answers: "Invoice BL-0417",
    from: ada,
    to: priya,
    cc: ben,
    hoursAgo: 1,
    text: "Dear Priya,\n\nthank you, the invoice goes out with Friday's payments. Ben has both receipts and will send them to you today.\n\nAda",
  },
];
