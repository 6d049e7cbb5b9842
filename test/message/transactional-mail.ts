/**
 * Layouts of mail that services send to sign people in, and of mail that has numbers and links of other kinds. The
 * words are our own; the layouts are those of services that many people have.
 */
export interface Layout {
  name: string;
  subject: string;
  text?: string;
  html?: string;
  /** Texts that must not be readable once the mail is masked. */
  secrets: string[];
}

/** Digits in cells of their own. */
const cells = (code: string): string => [...code].map((digit) => `<td class="d">${digit}</td>`).join("\n");
const spans = (code: string): string => [...code].map((digit) => `<span style="padding:2px">${digit}</span>`).join("");

const TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk";

export const SIGN_IN_MAIL: Layout[] = [
  {
    name: "code in the subject and in a heading",
    subject: "482913 is your Nimbus verification code",
    html: "<html><head><title>Nimbus</title></head><body><div style='display:none'>482913 – valid for ten minutes</div><h1>482913</h1><p>Type it where you asked for it. © 2026 Nimbus Inc., 548 Market Street, San Francisco, CA 94104</p></body></html>",
    secrets: ["482913"],
  },
  {
    name: "plain text, code on a line of its own",
    subject: "[Forge] Please verify your device",
    text: "Hey mona!\n\nA sign in attempt requires further verification because we did not recognize your device.\n\nDevice: Firefox on Linux\nVerification code: 071936\n\nIf you did not attempt to sign in, your password may be compromised. Visit https://forge.example/settings/security to create a new one.",
    secrets: ["071936"],
  },
  {
    name: "grouped code in a box",
    subject: "Cubicle confirmation code: QXR-7P2",
    html: "<h1>Confirm your email address</h1><p>Your confirmation code is below. Enter it in your open browser window.</p><table><tr><td style='font-size:30px'>QXR-7P2</td></tr></table><p>Questions? Visit the <a href='https://cubicle.example/help'>help center</a>.</p>",
    secrets: ["QXR-7P2"],
  },
  {
    name: "letter and number, as search engines have it",
    subject: "Verification code",
    text: "Hi,\n\nG-384756 is your verification code.\n\nDon't share it with anyone.",
    secrets: ["384756"],
  },
  {
    name: "a digit a cell",
    subject: "Sign in to Parcelio",
    html: `<p>Hello Ben,</p><p>here is the code that you asked for:</p><table><tr>${cells("905172")}</tr></table><p>It expires in 15 minutes.</p>`,
    secrets: ["905172", '<td class="d">9</td>'],
  },
  {
    name: "a digit a span, code nowhere else",
    subject: "Your one-time passcode",
    html: `<div><p>One-time passcode</p><p>${spans("4471")}</p></div>`,
    secrets: ["4471", ">4</span>"],
  },
  {
    name: "spaced by hand",
    subject: "Kontobestätigung",
    text: "Guten Tag,\n\nIhr Bestätigungscode lautet:\n\n  7 3 0 4 4 1\n\nEr ist 10 Minuten gültig.\n\nMusterstraße 12, 10115 Berlin\nTel. +49 30 1234567",
    secrets: ["7 3 0 4 4 1", "730441"],
  },
  {
    name: "German, in a sentence",
    subject: "Ihre Anmeldung bei der Sparbank",
    text: "Sehr geehrte Frau Muster,\n\nIhre TAN für die Überweisung von 1.250,00 EUR an IBAN DE89 3704 0044 0532 0130 00 lautet 559018. Geben Sie sie niemals weiter.",
    secrets: ["559018"],
  },
  {
    name: "German one-time password with letters",
    subject: "Einmalpasswort",
    text: "Hallo,\n\ndein Einmalpasswort: xK7mQ2pa\n\nViele Grüße",
    secrets: ["xK7mQ2pa"],
  },
  {
    name: "French",
    subject: "Votre code de vérification",
    html: "<p>Bonjour,</p><p>Pour vous connecter, saisissez ce code de sécurité&nbsp;:</p><p><strong>318&nbsp;604</strong></p><p>Ce code est valable 10&nbsp;minutes.</p>",
    secrets: ["318", "604"],
  },
  {
    name: "Spanish",
    subject: "Tu código de acceso",
    text: "Hola, Ana:\n\nUsa el código 60215 para iniciar sesión.\n\nSi no lo has pedido, ignora este mensaje.",
    secrets: ["60215"],
  },
  {
    name: "Portuguese, in the subject alone",
    subject: "Seu código de verificação é 772038",
    text: "Use o código do assunto para entrar.",
    secrets: ["772038"],
  },
  {
    name: "Italian",
    subject: "Codice di sicurezza",
    html: "<h2>Il tuo codice</h2><div><b>84 20 17</b></div><p>Scade tra 5 minuti.</p>",
    secrets: ["84 20 17"],
  },
  {
    name: "Dutch",
    subject: "Inloggen bij Fiets.example",
    text: "Hoi,\n\nJe verificatiecode is 24681357. Hij is een kwartier geldig.",
    secrets: ["24681357"],
  },
  {
    name: "Swedish and Danish",
    subject: "Din kod",
    text: "Hej!\n\nDin engångskod:\n\n9081\n\nDin bekræftelseskode er 55107.",
    secrets: ["9081", "55107"],
  },
  {
    name: "Polish",
    subject: "Logowanie",
    text: "Dzień dobry,\n\nTwój kod weryfikacyjny: 640 118\n\nKod wygaśnie za 10 minut.",
    secrets: ["640 118"],
  },
  {
    name: "Turkish",
    subject: "Giriş yapın",
    text: "Merhaba,\n\nDoğrulama kodunuz: 118273\n",
    secrets: ["118273"],
  },
  {
    name: "Russian",
    subject: "Подтверждение входа",
    text: "Здравствуйте!\n\nВаш код: 40 72 19. Никому его не сообщайте.",
    secrets: ["40 72 19"],
  },
  {
    name: "Chinese",
    subject: "【云盘】登录验证码",
    text: "您的验证码是539104，5分钟内有效。请勿告诉他人。",
    secrets: ["539104"],
  },
  {
    name: "Japanese, in full width",
    subject: "認証コードのお知らせ",
    text: "認証コード：４８１５１６\n\n有効期限は10分です。",
    secrets: ["４８１５１６", "481516"],
  },
  {
    name: "Korean",
    subject: "인증번호 안내",
    html: "<p>인증번호</p><p><b>203948</b></p><p>3분 안에 입력해 주세요.</p>",
    secrets: ["203948"],
  },
  {
    name: "Arabic digits",
    subject: "رمز التحقق",
    text: "رمز التحقق الخاص بك: ٤٨٢٩١٣",
    secrets: ["٤٨٢٩١٣"],
  },
  {
    name: "device code of two words",
    subject: "Connect your television",
    text: "Go to https://flicks.example/activate and enter this code:\n\nWDJB-MJHT\n\nIt is valid for half an hour.",
    secrets: ["WDJB-MJHT"],
  },
  {
    name: "recovery codes",
    subject: "Your recovery codes",
    text: "Keep these recovery codes in a safe place:\n\n1. 4f8a2-9c01b\n2. 77b1e-0d3fa\n3. c0ffe-123ab\n\nGenerated on 2026-11-26.",
    secrets: ["4f8a2", "77b1e", "c0ffe-123ab"],
  },
  {
    name: "magic link as a button and beneath it",
    subject: "Sign in to Paper",
    html: `<p><a href="https://paper.example/auth/magic?token=${TOKEN}&amp;redirect=%2Fhome" class="button">Sign in</a></p><p>Or copy this address:<br>https://paper.example/auth/magic?token=${TOKEN}&amp;redirect=%2Fhome</p>`,
    secrets: [TOKEN.slice(0, 20), TOKEN.slice(-20)],
  },
  {
    name: "wrapped link in plain text",
    subject: "Reset your password",
    text: "Hello,\n\nsomebody asked for a new password. If that was you:\n\n<https://accounts.shop.example/reset/confirm?id=48121&t=Zm9vYmFyYmF6cXV4\nNzc3MTIzNDU2Nzg5MGFiY2RlZg&lang=en>\n\nThe link is good for an hour.",
    secrets: ["Zm9vYmFyYmF6cXV4", "NzcxMjM0", "NzMTIzNDU2Nzg5MGFiY2RlZg", "Nzc3MTIzNDU2Nzg5MGFiY2RlZg"],
  },
  {
    name: "click counter around a link",
    subject: "Confirm your address",
    html: '<a href="https://u1234.ct.mailer.example/ls/click?upn=u001.Qm9zdG9uIFRlYSBQYXJ0eSAxNzczIQ-2BabcDEF123_4567890xyzABC">Confirm my address</a>',
    secrets: ["Qm9zdG9uIFRlYSBQYXJ0eSAxNzczIQ"],
  },
  {
    name: "short link with words around it",
    subject: "You are invited to the team Orchard",
    text: "Ann invited you. Accept the invitation here: https://orchard.example/i/9f86d081884c7d659a2f\n",
    secrets: ["9f86d081884c7d659a2f"],
  },
  {
    name: "link of an app",
    subject: "Log in on your phone",
    text: "Open chatapp://login?code=83kd02mfLs on your phone.",
    secrets: ["83kd02mfLs"],
  },
  {
    name: "link without scheme",
    subject: "Activate your account",
    text: "Activate it at my.bank.example/activate/7GH2-99KL-22MN within a day.",
    secrets: ["7GH2-99KL-22MN"],
  },
  {
    name: "temporary password",
    subject: "Your new account",
    text: "Your user name is ann, and your temporary password is Tulip7788x.\nPlease change it when you sign in.",
    secrets: ["Tulip7788x"],
  },
  {
    name: "asked for by a verb",
    subject: "Welcome",
    text: "Enter 660512 in the app to confirm your phone.\n",
    secrets: ["660512"],
  },
  {
    name: "hidden by invisible characters",
    subject: "Your login code",
    html: "<p>Your login code is 4&zwnj;8&zwnj;2&#8203;0&shy;77</p>",
    secrets: ["482077", "4&zwnj;8"],
  },
  {
    name: "quoted by somebody who forwards it",
    subject: "Fwd: Your Nimbus code",
    text: "Ben, can you use this?\n\n> From: Nimbus\n> Your code:\n>\n> 731 902\n>\n> It expires soon.",
    secrets: ["731 902"],
  },
  {
    name: "letters alone, as shops of games send them",
    subject: "Your Kettle account: access from a new computer",
    text: "Dear ann,\n\nhere is the Kettle Guard code you need to log in:\n\nBXQVT\n\nThis mail was made because somebody knows your password.",
    secrets: ["BXQVT"],
  },
  {
    name: "words with hyphens",
    subject: "Your temporary login code",
    text: "Copy and paste this temporary login code:\n\nspell-vagis-pump-yok\n",
    secrets: ["spell-vagis"],
  },
  {
    name: "label in the token, and digits with hyphens",
    subject: "Anmeldung",
    text: "OTP-118822 oder Code=553311.\nVerification code 4-8-2-9-1-3",
    secrets: ["118822", "553311", "4-8-2-9"],
  },
  {
    name: "links of common services",
    subject: "Links",
    text: [
      "https://blog.example/wp-login.php?action=rp&key=AbC123xyzDEF&login=ann",
      "https://project.app.example/__/auth/action?mode=signIn&oobCode=kd93-Xw_0aBcD&lang=en",
      "https://chat.example/verify#token=Njk4.abcDEF123",
      "https://read.example/m/callback/email?token=0f1e2d3c4b5a&operation=login",
      "https://meet.example/j/86341234567?pwd=Qk1yZ3x5",
      "https://letters.example/redirect/2/eyJlIjoiaHR0cHM6Ly9sZXR0ZXJzLmV4YW1wbGUifQ",
      "https://ann:hunter2@files.example/",
    ].join("\n"),
    secrets: ["AbC123", "kd93-X", "abcDEF123", "0f1e2d3c", "Qk1yZ3x5", "eyJlIjoi", "hunter2"],
  },
  {
    name: "in the text of an image and in a field",
    subject: "Your access code",
    html: '<p>Your access code:</p><img alt="5 5 1 2 8 0" src="https://cdn.example/c.png"><input value="551280">',
    secrets: ["551280", "5 5 1 2 8 0"],
  },
];

/** Mail that stays as it is. */
export const OTHER_MAIL: Layout[] = [
  {
    name: "receipt",
    subject: "Your order 302-1187455 has shipped",
    text: "Order number: 30211874\nTracking number: 1Z999AA10123456784\nTotal: $1,249.00 (VAT 19 %)\nPlaced on 2026-11-26 at 10:30\nDelivered to: 548 Market Street, San Francisco, CA 94104\n\nTrack it: https://parcel.example/track/1Z999AA10123456784",
    secrets: [],
  },
  {
    name: "years, versions, ports and colours",
    subject: "Release notes 2026",
    html: '<style>h1{color:#123456;background:#a1b2c3}</style><h1 style="color:#482913">Version 12.4.1800</h1><p>Copyright 2019-2026. Listens on port 8443, needs 2048 MB.</p><p>See <a href="https://git.example/acme/app/commit/8756ec1f0a1b2c3d4e5f60718293a4b5c6d7e8f9">the commit</a> and issue #48291.</p>',
    secrets: [],
  },
  {
    name: "talk about programs",
    subject: "Re: exit code of the worker",
    text: "The code at line 1482 returns error code 404, and the source code has 20481 lines.\nStatus code 5003 is new. Zip code 94104, area code 4155.\nhttps://forge.example/acme/app/blob/main/src/code.ts#L1482",
    secrets: [],
  },
  {
    name: "signature",
    subject: "Lunch on 12.11.2026?",
    text: "See you at 12:30.\n\n-- \nAnn Example\nTel. +49 (0)30 1234 5678 | Fax 030 12345679\nHRB 123456, USt-IdNr. DE123456789",
    secrets: [],
  },
  {
    name: "newsletter",
    subject: "10000 reasons to read us",
    html: '<p>Meet 25000 members on 2026-12-01.</p><a href="https://news.example/2026/11/how-to-reset-your-mind">Read</a> <a href="https://news.example/unsubscribe?u=8f3a2b1c9d&amp;token=77aa88bb99">Unsubscribe</a><img src="https://cdn.example/img/3f2a9c81d7e64b50.png">',
    secrets: [],
  },
  {
    name: "links of every day",
    subject: "Links",
    text: "https://video.example/watch?v=dQw4w9WgXcQ\nhttps://shop.example/item/48291377?color=blue\nhttps://wiki.example/page/Sign-in_with_passkeys\nhttps://docs.example/login\nhttps://id.example/550e8400-e29b-41d4-a716-446655440000",
    secrets: [],
  },
  {
    name: "invoice in German",
    subject: "Rechnung 2026-11-4711",
    text: "Rechnungsnummer: 20264711\nKundennummer 883721\nBetrag: 1.499,00 EUR, fällig am 10.12.2026\nIBAN DE89 3704 0044 0532 0130 00",
    secrets: [],
  },
  {
    name: "numbers on lines of their own",
    subject: "Figures of the quarter",
    text: "Visits\n\n48213\n\nSales\n\n1204\n",
    secrets: [],
  },
];
