/** No message reads worse than in Thunderbird. */
import { composeMessage } from "../../src/message/compose.ts";
import { CORPORA, type CorpusFile, corpusFiles, corpusNote } from "../harness/mail/corpus.ts";
import { MAIL_TEMPLATES } from "../harness/mail/mail-templates.ts";
import { describeBeside } from "./beside-thunderbird.ts";
import { FORMS_OF_MAIL } from "./forms-of-mail.ts";
import { OTHER_MAIL, SIGN_IN_MAIL } from "./transactional-mail.ts";

const mailOf = (name: string, subject: string, html: string, text: string): CorpusFile => ({
  name,
  bytes: new Uint8Array(composeMessage({ id: "msg_1", headers: [["Subject", subject]], text, html, attachments: [] })),
});
const layouts = [
  ...[...SIGN_IN_MAIL, ...OTHER_MAIL].map(({ name, subject, text = "", html = "" }) =>
    mailOf(name, subject, html, text),
  ),
  ...Object.entries(MAIL_TEMPLATES).map(([name, html]) => mailOf(name, name, html, "View in HTML")),
];

/** True for every tenth of the many bounces that are alike, and for all other mail; the long test has all bounces. */
const isSome = ({ name }: CorpusFile, index: number) => !name.startsWith("sisimai/") || index % 10 === 0;

describeBeside({
  "mail of services and templates": layouts,
  "forms of mail": FORMS_OF_MAIL,
  ...Object.fromEntries(CORPORA.map((folder) => [`${folder}${corpusNote}`, corpusFiles(folder).filter(isSome)])),
});
