/**
 * A session (RFC 9051 §3): the person who signed in, the selected mailbox, and the news that the client is told. Commands run
 * one after the other, each in a file of commands/.
 *
 * Invariants: every command has one tagged reply, and no client is told of mail outside its person's reach. The person is
 * looked up anew for each command: a session ends with the password or key that it was opened with.
 */
import { type Caller, findReach, isKeyDeniedSignInCodes } from "../access/caller.ts";
import type { SignedIn, SignIn } from "../access/sign-in.ts";
import { AppError, isUnavailable } from "../base/errors.ts";
import { letOthersRun } from "../base/pause.ts";
import type { ReadJournal } from "../journal/reads.ts";
import type { ImapFolders } from "../mailbox/imap/imap-folders.ts";
import { wantsLabelFolders } from "../mailbox/imap/label-folders.ts";
import type { Octets } from "../mailbox/imap/octets.ts";
import type { FlagState, ImapFolder } from "../mailbox/imap/uids.ts";
import { listLabels } from "../mailbox/state/labels.ts";
import { asUnavailable } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { decodeUtf7, encodeUtf7, formatSequenceSet, quoteImapText } from "./grammar.ts";
import { Keywords } from "./keywords.ts";
import { applyViewChanges, findSequenceNumber, findViewChanges, noteFlagsIfNew, type View } from "./view.ts";

/** Parts that the sessions of a server share, besides the context. */
export interface Shared {
  readonly folders: ImapFolders;
  readonly octets: Octets;
  readonly signIn: SignIn;
  readonly reads: ReadJournal;
}

/** A refusal of a command; the reply is NO. `code`: of RFC 5530 and others. */
export class Refused extends Error {
  override readonly name = "Refused";
  constructor(
    text: string,
    readonly code?: string,
  ) {
    super(text);
  }
}

/** The session is over: BYE. */
export class Ended extends Error {
  override readonly name = "Ended";
}

/** The connection, as a session writes to it. */
export interface Wire {
  /** Resolves when the client takes more. */
  write(data: string | Uint8Array): Promise<void>;
  isSecure(): boolean;
  /** Says BYE and ends. */
  hangUp(reason: string): void;
  /** The next line of the client, for AUTHENTICATE and IDLE; undefined when the connection has ended. */
  line(): Promise<string | undefined>;
}

export class ImapSession {
  readonly core: ParsingCore;
  readonly folders: ImapFolders;
  readonly octets: Octets;
  readonly signIn: SignIn;
  readonly reads: ReadJournal;
  readonly wire: Wire;
  readonly trace: string;
  /** Source of the client, as ipAddressSource gives it; `address` is as canonicalIpAddress gives it. */
  readonly source: string;
  readonly address: string | undefined;
  who: SignedIn | undefined;
  view: View | undefined;
  readonly enabled = new Set<string>();
  /** Messages that the app has put under a label and that stayed where they were, as `folder/UID`. */
  readonly #copied = new Set<string>();

  constructor(
    core: ParsingCore,
    { folders, octets, signIn, reads }: Shared,
    wire: Wire,
    peer: { trace: string; source: string; address: string | undefined },
  ) {
    this.core = core;
    this.folders = folders;
    this.octets = octets;
    this.signIn = signIn;
    this.reads = reads;
    this.wire = wire;
    this.trace = peer.trace;
    this.source = peer.source;
    this.address = peer.address;
  }

  /**
   * The person who signed in, in their present state. @throws Ended once they may no longer; AppError while their workspace
   * moves
   */
  present(): Caller {
    const present = this.who?.present();
    // A policy may have changed since.
    if (!present || isKeyDeniedSignInCodes(present)) throw new Ended("Sign in again");
    return present;
  }

  /** The person as a caller, whose use of the session is recorded. `operation`: for the journal. */
  caller(operation: string): Caller {
    const present = this.present();
    this.who?.touch(this.core.now());
    return { ...present, origin: { face: "imap", operation, source: this.source } };
  }

  /** The caller of a command that changes mail in one transaction: a key may be revoked before the next. @throws Refused */
  writer(operation: string): Caller {
    const caller = this.caller(operation);
    if (!caller.scopes.has("write")) throw new Refused("This key may only read", "NOPERM");
    return caller;
  }

  /** The selected mailbox. @throws Refused; Ended once it is out of reach */
  selected({ toChange = false } = {}): View {
    if (!this.view) throw new Refused("Select a mailbox first", "CLIENTBUG");
    this.#requireReach(this.view);
    if (toChange && this.view.readOnly) throw new Refused("The mailbox is open to read only", "READ-ONLY");
    return this.view;
  }

  /** A share may end while its mailbox is open, and a label. */
  #requireReach({ named, folder }: View): void {
    const { db } = this.core;
    const caller = this.caller("look");
    if (!findReach(db, caller, named.reach.mailbox.id)?.access.read)
      throw new Ended("The mailbox is no longer shared with you");
    if (folder.label === undefined) return;
    if (!wantsLabelFolders(db, caller.userId)) throw new Ended("Labels are no mailboxes any more");
    if (!folder.present()) throw new Ended("The label is gone");
  }

  /** A message of a folder was put under a label beside: an app that now deletes it there moves it. */
  noteCopied({ objectId }: Pick<ImapFolder, "objectId">, uid: number): void {
    this.#copied.add(`${objectId}/${uid}`);
    const [oldest] = this.#copied;
    if (oldest !== undefined && this.#copied.size > MOST_COPIED) this.#copied.delete(oldest);
  }

  wasCopied({ objectId }: Pick<ImapFolder, "objectId">, uid: number): boolean {
    return this.#copied.has(`${objectId}/${uid}`);
  }

  /** IMAP4rev2 was enabled. */
  get isRev2(): boolean {
    return this.enabled.has("IMAP4REV2");
  }

  get #isUtf8(): boolean {
    return this.isRev2 || this.enabled.has("UTF8=ACCEPT");
  }

  /** The name of a mailbox, as it is sent: in UTF-8 (RFC 9051 §5.1, RFC 9755 §3), before that in modified UTF-7. */
  formatMailboxName(name: string): string {
    if (!this.#isUtf8) return quoteImapText(encodeUtf7(name));
    return `"${Buffer.from(name, "utf8").toString("latin1").replace(/["\\]/g, "\\$&")}"`;
  }

  /** The name of a mailbox, as a client has sent it. */
  nameIn(sent: string): string {
    return this.#isUtf8 ? sent : decodeUtf7(sent);
  }

  send(line: string): Promise<void> {
    return this.wire.write(`${line}\r\n`);
  }

  /** The client knows MODSEQ from now on, and is told the one that it starts from (RFC 7162 §3.1). */
  async enableCondstore(): Promise<void> {
    if (this.enabled.has("CONDSTORE")) return;
    this.enabled.add("CONDSTORE");
    if (this.view) await this.#tellModseq(this.view);
  }

  #tellModseq({ modseq }: View): Promise<void> {
    return this.send(`* OK [HIGHESTMODSEQ ${modseq}] The latest change that you were told of`);
  }

  /** Tells what changed in the selected mailbox. `keepsNumbers`: nothing while a message is gone that the client counts. */
  async tellChanges({ keepsNumbers = false } = {}): Promise<void> {
    const { view } = this;
    if (!view) return;
    if (view.folder.label !== undefined) {
      this.#requireReach(view);
      await view.folder.updated();
    }
    const changes = findViewChanges(view);
    if (!changes) return;
    this.#requireReach(view);
    const { vanished, arrived, changed } = changes;
    if (keepsNumbers && vanished.length > 0) {
      // A higher MODSEQ may have been told: the client would not ask for what is between them (RFC 7162 §3.2).
      if (this.enabled.has("CONDSTORE")) await this.#tellModseq(view);
      return;
    }
    const { rows: before } = view;
    applyViewChanges(this.folders, view, changes);
    if (vanished.length > 0) {
      if (this.enabled.has("QRESYNC")) await this.send(`* VANISHED ${formatSequenceSet(vanished)}`);
      else {
        // From the last one on, so that each number is still right when the client reads it.
        const numbers = vanished.map((uid) => findSequenceNumber({ rows: before }, uid)).reverse();
        await this.send(numbers.map((number) => `* ${number} EXPUNGE`).join("\r\n"));
      }
    }
    if (arrived.length > 0) await this.send(`* ${view.rows.length} EXISTS`);
    const seqs = changed.map(({ seq }) => seq);
    await this.tellFlags(view, seqs, this.keywordsIn(view.folder.mailboxId), { onlyNews: true });
  }

  /** The keywords of a mailbox as they are now. The caller checks access. */
  keywordsIn(mailboxId: string): Keywords {
    return new Keywords(() => listLabels(this.core, this.present(), mailboxId, MOST_COMPARED));
  }

  /**
   * Tells the changes after a command that removed messages; returns the code of its reply (RFC 7162 §3.2.7, RFC 6851 §4.4).
   */
  async tellRemoved(view: View): Promise<string> {
    await this.tellChanges();
    return `[HIGHESTMODSEQ ${view.modseq}]`;
  }

  /** Tells the flags of messages (messages.seq). `onlyNews`: of those that have others than the client was told. */
  async tellFlags(view: View, seqs: readonly number[], keywords: Keywords, { onlyNews = false } = {}): Promise<void> {
    for (let next = 0; next < seqs.length; next += PORTION) {
      if (next > 0) {
        await letOthersRun();
        this.#requireReach(view);
      }
      const states = view.folder.flagStates(seqs.slice(next, next + PORTION));
      const lines = states.flatMap((state) => this.#flagsLine(view, state, keywords, onlyNews) ?? []);
      if (lines.length > 0) await this.send(lines.join("\r\n"));
    }
  }

  #flagsLine(view: View, state: FlagState, keywords: Keywords, onlyNews: boolean): string | undefined {
    const sequence = findSequenceNumber(view, state.uid);
    const flags = keywords.formatFlags(state);
    const isNew = noteFlagsIfNew(view, state, flags);
    if (sequence === undefined || (onlyNews && !isNew)) return undefined;
    // RFC 9051 §7.5.2, RFC 7162 §3.2.4.
    const items = [`FLAGS ${flags}`, `UID ${state.uid}`];
    if (this.enabled.has("CONDSTORE")) items.push(`MODSEQ (${state.modseq})`);
    return `* ${sequence} FETCH (${items.join(" ")})`;
  }
}

/** Messages whose flags are told at once. */
const PORTION = 500;
/** Most messages in `#copied`, which take some 3 MB. */
const MOST_COPIED = 50_000;
const LONGEST_LABEL = 60;
/** Labels of a mailbox whose keywords are compared. */
const MOST_COMPARED = 10_000;

/** The label that a keyword is. @throws Refused if no label is like that */
export const readKeywordLabel = (keywords: Keywords, keyword: string): string =>
  requireValidLabel(keywords.label(keyword));

/** @throws Refused if no label is like that */
export function requireValidLabel(label: string): string {
  if (label.length > LONGEST_LABEL || label.trim() === "" || /\p{Cc}/u.test(label)) {
    throw new Refused("A label has 1 to 60 characters", "LIMIT");
  }
  return label;
}

/** The refusal for an error of the mailbox. Anything else is thrown. */
export function toImapRefusal(failure: unknown): Refused {
  const error = asUnavailable(failure);
  if (error instanceof Refused) return error;
  if (!(error instanceof AppError)) throw error;
  const codes: Partial<Record<AppError["code"], string>> = {
    not_found: "NONEXISTENT",
    forbidden: "NOPERM",
    conflict: "CANNOT",
    unprocessable: "LIMIT",
    rate_limited: "LIMIT",
    server_error: isUnavailable(error) ? "UNAVAILABLE" : "SERVERBUG",
  };
  return new Refused(error.message, codes[error.code] ?? "CANNOT");
}
