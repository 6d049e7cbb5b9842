/** Mail whose octets are in another charset than it declares, or that declares none. */
import { describe, expect, test } from "bun:test";
import { parseMessage } from "../../src/message/parse.ts";
import { encodeIn } from "./encode.ts";

/** Parses a message of lines; texts are in UTF-8. */
function parse(...lines: (string | Uint8Array)[][]) {
  const bytes = lines.flatMap((line) => [...line.map((piece) => Buffer.from(piece as string)), Buffer.from("\r\n")]);
  return parseMessage(new Uint8Array(Buffer.concat(bytes)));
}

describe("8-bit header fields follow the charset that the text declares", () => {
  test.each([
    ["windows-1251", "Счёт", "Иван Петров"],
    ["euc-kr", "청구서", "김지수"],
    ["koi8-r", "Счёт", "Иван Петров"],
    ["gbk", "发票", "王芳"],
    ["iso-8859-2", "Faktura č. 5", "Łukasz Żak"],
    ["windows-1255", "חשבונית", "דנה"],
  ])("%s", async (charset, subject, name) => {
    const field = (name: string, value: string) => [`${name}: `, encodeIn(charset, value)];
    const header = [field("Subject", subject), [...field("From", name), " <ann@remote.example>"]];
    const expected = { subject, from: { email: "ann@remote.example", name } };
    const text = [[""], [encodeIn(charset, name)]];
    expect(await parse(...header, [`Content-Type: text/plain; charset=${charset}`], ...text)).toMatchObject({
      ...expected,
      text: name,
    });
    expect(
      await parse(
        ...header,
        ["Content-Type: multipart/mixed; boundary=b"],
        ["\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>Hello\r\n--b"],
        [`Content-Type: text/plain; charset="${charset}"`],
        ...text,
        ["--b\r\nContent-Type: application/pdf"],
        ["Content-Disposition: attachment; filename=", encodeIn(charset, `${name}.pdf`.replaceAll(" ", "_"))],
        ["\r\n%PDF\r\n--b--"],
      ),
    ).toMatchObject({ ...expected, attachments: [{ filename: `${name}.pdf`.replaceAll(" ", "_") }] });
  });

  test("unless they are nearly UTF-8", async () => {
    const message = await parse(
      ["Subject: Größe und ", Buffer.from([0xe4]), "Wörter"],
      ["Content-Type: text/plain; charset=windows-1251"],
    );
    expect(message.subject).toBe("Größe und \ufffdWörter");
  });

  test("a header of fields in several charsets keeps those that are UTF-8", async () => {
    const message = await parse(
      ["Subject: Größe"],
      ["From: ", encodeIn("windows-1251", "Иван"), " <ann@remote.example>"],
      ["Content-Type: text/plain; charset=windows-1251"],
    );
    expect([message.subject, message.from?.name]).toEqual(["Größe", "Иван"]);
  });
});

describe("the charset is found where none is declared, or another one", () => {
  const LETTERS: [charset: string, text: string][] = [
    ["windows-1251", "Добрый день! Высылаю счёт за март, проверьте сумму."],
    ["koi8-r", "Добрый день! Высылаю счёт за март, проверьте сумму."],
    ["windows-1253", "Καλημέρα σας, στέλνω το τιμολόγιο του Μαρτίου."],
    ["windows-1254", "Merhaba, Mart ayının faturasını gönderiyorum, lütfen tutarı kontrol edin."],
    ["windows-1250", "Dobrý den, posílám fakturu za březen, prosím zkontrolujte částku a pošlete výtisk."],
    ["windows-1255", "שלום, מצורפת החשבונית לחודש מרץ, נא לבדוק את הסכום."],
    ["windows-1256", "مرحبا، أرسل لكم فاتورة شهر مارس، الرجاء مراجعة المبلغ."],
    ["windows-874", "สวัสดีครับ ขอส่งใบแจ้งหนี้เดือนมีนาคม กรุณาตรวจสอบจำนวนเงิน"],
    ["shift_jis", "三月分の請求書をお送りします。金額をご確認ください。"],
    ["euc-jp", "三月分の請求書をお送りします。金額をご確認ください。"],
    ["euc-kr", "삼월 청구서를 보내드립니다. 금액을 확인하여 주십시오."],
    ["gbk", "现将三月份的发票寄给您，请核对金额并签字。"],
    ["big5", "現將三月份的發票寄給您，請核對金額並簽名。"],
    ["windows-1252", "Anbei die Rechnung für März, bitte prüfen Sie die Beträge und schicken sie zurück."],
  ];

  test.each(LETTERS)("%s", async (charset, text) => {
    const octets = encodeIn(charset, text);
    for (const label of ["", "; charset=utf-8", "; charset=us-ascii", "; charset=x-unknown"]) {
      const message = await parse(["Subject: ", octets], [`Content-Type: text/plain${label}`], [""], [octets]);
      expect([label, message.subject, message.text]).toEqual([label, text, text]);
    }
    const base64 = octets.toString("base64");
    expect((await parse(["Content-Transfer-Encoding: base64\r\n"], [base64])).text).toBe(text);
    const html = await parse(["Content-Type: text/html\r\n"], ["<p class=a>Hello</p>\r\n".repeat(2_000), octets]);
    expect(html.html).toContain(text);
    expect((await parse(["Subject: ", octets], ["\r\nHello"])).subject).toBe(text);
  });

  test.each(["Jörg", "Café", "Crème brûlée", "price – 5 €", "Überweisung für Müller", "“quoted”", "10 £ für dich"])(
    "few letters are windows-1252: %s",
    async (text) => {
      const octets = encodeIn("windows-1252", text);
      expect(await parse(["Subject: ", octets], [""], [octets])).toMatchObject({ subject: text, text });
    },
  );

  test.each(["euc-kr", "shift_jis", "gbk", "iso-8859-1", "koi8-r"])("UTF-8 that claims %s", async (charset) => {
    const text = "Größe, Счёт, 請求書";
    expect(await parse([`Content-Type: text/plain; charset=${charset}`], [""], [text])).toMatchObject({ text });
  });

  test("a text in the declared charset with a few invalid octets stays in it", async () => {
    const text = "삼월 청구서를 보내드립니다.";
    const octets = Buffer.concat([encodeIn("euc-kr", text), Buffer.from([0xff])]);
    const message = await parse(["Content-Type: text/plain; charset=euc-kr"], [""], [octets]);
    expect(message.text).toBe(`${text}\ufffd`);
  });

  test("a long text is judged by a sample, to its end", async () => {
    const [charset, text] = LETTERS[0] ?? expect.unreachable();
    const octets = Buffer.from("\r\n").toString() + encodeIn(charset, text).toString("latin1");
    const message = await parse([Buffer.from(octets.repeat(20_000), "latin1")]);
    expect(message.text).toBe(Array.from({ length: 20_000 }, () => text).join("\n"));
  });

  test("ISO-2022-JP, in header and text", async () => {
    const octets = "\x1b$B@A5a=q\x1b(B";
    const message = await parse([`Subject: ${octets}`], [`From: ${octets} <ann@remote.example>`], [""], [octets]);
    expect(message).toMatchObject({ subject: "請求書", from: { name: "請求書" }, text: "請求書" });
  });
});

describe("file names", () => {
  const named = async (...disposition: (string | Uint8Array)[]) => {
    const message = await parse(
      ["Content-Type: application/pdf"],
      ["Content-Disposition: attachment", ...disposition],
      [""],
    );
    return message.attachments[0]?.filename;
  };

  test("in UTF-8 with an invalid octet lose only that", async () => {
    expect(await named('; filename="Größe ', Buffer.from([0xe4]), 'Bärbel.pdf"')).toBe("Größe \ufffdBärbel.pdf");
    expect(await named('; filename="Отчёт', Buffer.from([0xd0]), ' годовой.pdf"')).toBe("Отчёт\ufffd годовой.pdf");
    expect(await named("; filename*=utf-8''%D0%9E%D1%82%D1%87%D0.pdf")).toBe("Отч\ufffd.pdf");
  });

  test.each([
    ["; filename=plain.pdf", "plain.pdf"],
    ["; filename=plain.pdf; filename*=utf-8''Gr%C3%B6%C3%9Fe.pdf", "Größe.pdf"],
    ["; filename*=iso-8859-1'de'Gr%F6%DFe.pdf", "Größe.pdf"],
    ["; filename*=''Gr%F6%DFe.pdf", "Größe.pdf"],
    ["; filename*=Gr%C3%B6%C3%9Fe.pdf", "Größe.pdf"],
    ["; filename*0*=utf-8''Gr%C3; filename*1*=%B6%C3%9Fe; filename*2=\"100%25.pdf\"", "Größe100%25.pdf"],
    ["; filename*1=b.pdf; filename*0=a", "ab.pdf"],
    ["; filename*1=b; filename*2=.pdf", "b.pdf"],
    ["; filename*0*=x'", "x'"],
    ["; filename*=utf-8''..%2F..%2Fetc%2Fpasswd", "passwd"],
  ])("%s", async (disposition, filename) => {
    expect(await named(disposition)).toBe(filename);
  });
});
