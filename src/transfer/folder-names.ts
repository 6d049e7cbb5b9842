/**
 * What folders are called elsewhere, and what they are here. Any other folder is a label on mail that lies in the
 * archive.
 */
import type { Folder } from "../store/schema.ts";

/** Names in the languages that mail programs and providers ship with, folded: lower case, without accents. */
const NAMES: Readonly<Record<Folder, string>> = {
  inbox:
    "inbox|posteingang|boite de reception|bandeja de entrada|recibidos|posta in arrivo|caixa de entrada|postvak in",
  sent: "sent|sent items|sent mail|sent messages|sent-mail|outbox|gesendet|gesendete objekte|gesendete elemente|messages envoyes|elements envoyes|envoyes|enviados|elementos enviados|posta inviata|inviati|itens enviados|verzonden items|verzonden",
  drafts: "draft|drafts|entwurfe|brouillons|borradores|bozze|rascunhos|concepten",
  archive:
    "archive|archives|archived|all mail|archiv|archiviert|alle nachrichten|tous les messages|todos|all mail including spam and trash",
  spam: "spam|junk|junk e-mail|junk email|junk mail|bulk mail|spamverdacht|courrier indesirable|correo no deseado|posta indesiderata|lixo eletronico|ongewenste e-mail",
  trash:
    "trash|bin|deleted|deleted items|deleted messages|papierkorb|geloschte objekte|geloschte elemente|corbeille|elements supprimes|papelera|elementos eliminados|cestino|posta eliminata|lixeira|prullenbak|verwijderde items",
};

const FOLDER_OF = new Map(
  Object.entries(NAMES).flatMap(([folder, names]) => names.split("|").map((name) => [name, folder as Folder])),
);

const folded = (name: string): string =>
  name
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase()
    .replace(/[\s_]+/g, " ")
    .trim();

/** The folder here that one of this name is, if it is a usual one. `INBOX/Sent`, `[Gmail]/Trash` count by their last name. */
export function folderNamed(path: string): Folder | undefined {
  const names = path.split("/").map(folded);
  const last = names.at(-1) ?? "";
  const isTop = names.slice(0, -1).every((name) => /^(?:inbox|\[(?:gmail|google mail)\])$/.test(name));
  return isTop ? FOLDER_OF.get(last) : undefined;
}

/** Characters of a label (rules: Labels). */
const LONGEST_LABEL = 60;

/** The name of a folder or label as a label; "" when nothing is left of it. */
export const labelNamed = (name: string): string =>
  name
    .replace(/^(?:INBOX|\[(?:Gmail|Google Mail)\])\//i, "")
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim()
    .slice(0, LONGEST_LABEL)
    .toWellFormed();
