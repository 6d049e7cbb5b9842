/**
 * Texts that people use again and again in a mailbox: its signature, and templates (rules: Signatures and templates). The only
 * writer of mailbox_texts.
 */
import { eq, sql } from "drizzle-orm";
import { type Caller, requireAccess, requireReach } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { filledStringSchema, type Static, t } from "../../base/json-schema.ts";
import { LONGEST_SUBJECT } from "../../message/compose.ts";
import { mailboxTexts } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";

const MOST_TEMPLATES = 50;

export const Signature = t.String({ maxLength: 10_000, description: "Plain text; empty for none" });

export const Template = t.Object(
  {
    name: filledStringSchema({ maxLength: 100, description: "Unlike the others of the mailbox, in any case" }),
    subject: t.Optional(t.String({ maxLength: LONGEST_SUBJECT })),
    text: t.String({ maxLength: 20_000, description: "Plain text" }),
  },
  { additionalProperties: false, $id: "Template" },
);
type Template = Static<typeof Template>;

export interface Texts {
  signature: string;
  /** Templates in the order in which they are offered. */
  templates: Template[];
}

const textsStatement = prepared((db) =>
  db
    .select({ signature: mailboxTexts.signature, templates: mailboxTexts.templates })
    .from(mailboxTexts)
    .where(eq(mailboxTexts.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
);

export const readSignatureAndTemplates = (db: Db, mailboxId: string): Texts =>
  textsStatement(db).get({ mailboxId }) ?? { signature: "", templates: [] };

function write(tx: Tx, mailboxId: string, change: Partial<Texts>): Texts {
  const texts = { ...readSignatureAndTemplates(tx, mailboxId), ...change };
  tx.insert(mailboxTexts)
    .values({ mailboxId, ...texts })
    .onConflictDoUpdate({ target: mailboxTexts.mailboxId, set: texts })
    .run();
  return texts;
}

const withLf = (text: string): string => text.replaceAll(/\r\n?/g, "\n");

export const setMailboxSignature = (tx: Tx, mailboxId: string, signature: string): Texts =>
  write(tx, mailboxId, { signature: withLf(signature).trimEnd() });

const foldTemplateName = (name: string): string => name.trim().normalize("NFC").toLowerCase();

/** Replaces all of them. @throws AppError bad_request for a blank name; unprocessable for equal names, or too many */
export function setTemplates(tx: Tx, mailboxId: string, templates: readonly Template[]): Texts {
  const names = new Set<string>();
  for (const { name } of templates) {
    const key = foldTemplateName(name);
    if (key === "") throw new AppError("bad_request", "a template needs a name");
    if (names.has(key)) throw new AppError("unprocessable", `there are two templates called ${JSON.stringify(name)}`);
    names.add(key);
  }
  if (templates.length > MOST_TEMPLATES) {
    throw new AppError("unprocessable", `a mailbox has at most ${MOST_TEMPLATES} templates: delete some first`);
  }
  return write(tx, mailboxId, {
    templates: templates.map(({ name, subject, text }) => ({
      name: name.trim(),
      ...(subject?.trim() && { subject: subject.trim() }),
      text: withLf(text),
    })),
  });
}

/**
 * Adds a template, or puts it in the place of the one called `replaces`.
 * @throws AppError as setTemplates; not_found if there is none called `replaces`
 */
export function keepTemplate(tx: Tx, mailboxId: string, template: Template, replaces?: string): Texts {
  const { templates } = readSignatureAndTemplates(tx, mailboxId);
  if (replaces === undefined) return setTemplates(tx, mailboxId, [...templates, template]);
  return setTemplates(tx, mailboxId, templates.with(getTemplateIndex(templates, replaces), template));
}

/** @throws AppError not_found */
export function dropTemplate(tx: Tx, mailboxId: string, name: string): Texts {
  const { templates } = readSignatureAndTemplates(tx, mailboxId);
  return setTemplates(tx, mailboxId, templates.toSpliced(getTemplateIndex(templates, name), 1));
}

function getTemplateIndex(templates: readonly Template[], name: string): number {
  const at = templates.findIndex((template) => foldTemplateName(template.name) === foldTemplateName(name));
  if (at < 0) throw new AppError("not_found", `there is no template called ${JSON.stringify(name)}`);
  return at;
}

/** Reads the texts of a mailbox for somebody who sends from it. @throws AppError not_found, forbidden */
export function getSignatureAndTemplates(db: Db, caller: Caller, mailboxId: string): Texts {
  requireAccess(requireReach(db, caller, mailboxId), "send");
  return readSignatureAndTemplates(db, mailboxId);
}

/** @throws AppError not_found, forbidden unless the caller manages the mailbox */
export function requireMayEditMailboxTexts(db: Db, caller: Caller, mailboxId: string): void {
  if (requireReach(db, caller, mailboxId).access.manage) return;
  throw new AppError(
    "forbidden",
    "Only the owner of the mailbox, an admin or someone with full access may change its signature and templates",
  );
}

/** Lines below a message, behind the separator of RFC 3676 §4.3; empty without a signature. */
export const signatureBlock = (signature: string): string => (signature === "" ? "" : `\n\n-- \n${signature}`);
