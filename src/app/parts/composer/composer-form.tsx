/**
 * The composer for new messages, replies, forwards and drafts. It saves the draft while the person writes
 * (lib/autosave.ts), shows refusals, and loses nothing.
 */
import { useQuery } from "@tanstack/react-query";
import { Archive, Type } from "lucide-react";
import {
  type ClipboardEvent,
  type DragEvent,
  type FormEvent,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { api, Refusal, urlTo } from "../../lib/api-client.ts";
import { createAutosave, type SaveState, useSaveOnLeaving } from "../../lib/autosave.ts";
import {
  type Fields,
  listSendingDoubts,
  replaceSignature,
  type Start,
  textToHtml,
  withQuote,
} from "../../lib/draft-content.ts";
import type { SavedDraft, SentDraft, Template } from "../../lib/mail-views.ts";
import { reopenUnsavedMessage } from "../../lib/open-composers.ts";
import { mailboxesQuery, mailboxTextsQuery, refreshMail } from "../../lib/queries.ts";
import { onServerReturn } from "../../lib/server-away.ts";
import { toast, toastFailure } from "../../lib/toast.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Conflict, Doubts, FromField, SaveMark, SendButton, SubjectField, TextEditor } from "./composer-fields.tsx";
import { Templates } from "./composer-templates.tsx";
import { AttachButton, AttachedFiles, useAttachments } from "./draft-attachments.tsx";
import { RecipientField } from "./recipient-field.tsx";
import { RichEditor, type RichEditorHandle } from "./rich-editor.tsx";

/** Goes when the server is back. */
const UNSENT =
  "Not sent: the server is not responding. Your message stays here, and you can send it when the server is back.";

/** URL of the document in which the HTML of a draft is edited. */
const draftEditorUrl = ({ draftId, revision }: SavedDraft): string => urlTo("editDraft", { id: draftId, revision });

export interface ComposerProps {
  start: Start;
  /** Addresses that the person may send from. */
  senders: readonly string[];
  asksSubject: boolean;
  /** Called when the message was accepted or scheduled. `archives`: the conversation is to be archived. */
  sent: (outcome: SentDraft, archives: boolean) => void;
  /** True: there is a conversation that can be archived when the reply was sent. */
  mayArchive?: boolean;
  /** Called for Escape: the composer is to be closed, which saves. */
  close: () => void;
  /** Called when the subject changes. */
  titled?: (subject: string) => void;
  /** Called when the draft was discarded. */
  discarded: () => void;
  /** Called when the content was saved as a new draft, or at last after a failure. */
  saved?: (draft: SavedDraft) => void;
}

export function Composer({
  start: given,
  senders,
  asksSubject,
  sent,
  mayArchive = false,
  close,
  titled,
  discarded,
  saved,
}: ComposerProps) {
  const [start] = useState(given);
  const [fields, setFields] = useState(start.fields);
  const [text, setText] = useState(start.text);
  const [quote, setQuote] = useState(start.quote);
  /** URL of the document in which the HTML is edited; absent for plain text. */
  const [editor, setEditor] = useState(start.html && start.saved ? draftEditorUrl(start.saved) : undefined);
  const [copies, setCopies] = useState(start.fields.cc !== "" || start.fields.bcc !== "");
  const [refusal, setRefusal] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [state, setState] = useState<SaveState>({ kind: "untouched" });
  const [over, setOver] = useState(false);
  const [doubts, setDoubts] = useState<{ about: readonly string[]; send: () => void }>();
  const area = useRef<HTMLTextAreaElement>(null);
  const rich = useRef<RichEditorHandle>(null);
  /** True: the HTML was changed since it was loaded. */
  const richChanged = useRef(start.unsavedHtml !== undefined);
  /** The editor's HTML when it unmounted. */
  const lastHtml = useRef(start.unsavedHtml);
  const present = useRef({ fields, text, quote, rich: editor !== undefined });
  present.current = { fields, text, quote, rich: editor !== undefined };
  const callbacks = useRef({ saved, titled });
  callbacks.current = { saved, titled };
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const mailbox = mailboxes.find(({ address, aliases }) => [address, ...aliases].includes(fields.from));
  const { data: texts } = useQuery(mailboxTextsQuery(mailbox?.access.send ? mailbox.id : undefined));
  const placeCaret = useSignature(start.signs === true && editor === undefined, texts?.signature, area, text, setText);

  function request() {
    const { fields, text, quote, rich: isRich } = present.current;
    if (!isRich) return { ...fields, text: withQuote(text, quote) };
    return { ...fields, html: richChanged.current ? (rich.current?.html() ?? lastHtml.current) : undefined };
  }

  const [autosave] = useState(() =>
    createAutosave({
      saved: start.saved,
      async put(draft, leaving) {
        const content = request();
        const done = draft
          ? await api.saveDraft({ id: draft.draftId, ...content, revision: draft.revision }, { leaving })
          : await api.beginDraft({ ...content, answers: start.answers }, { leaving });
        const isNew = done.draftId !== draft?.draftId;
        if (isNew) latestAttachments.current?.replace(done.attachments);
        if (isNew || start.unsaved) callbacks.current.saved?.(done);
        return done;
      },
      tell: setState,
    }),
  );
  const attachments = useAttachments(start.attachments, autosave.ensure, setRefusal);
  const latestAttachments = useRef(attachments);
  latestAttachments.current = attachments;

  // Reads the HTML before the editor unmounts, since no React state has it.
  useLayoutEffect(
    () => () => {
      lastHtml.current = rich.current?.html() ?? lastHtml.current;
    },
    [],
  );
  useEffect(() => {
    if (start.unsaved) autosave.touch();
  }, [autosave, start]);
  useEffect(
    () =>
      onServerReturn(() => {
        setRefusal((why) => (why === UNSENT ? undefined : why));
        void autosave.flush().catch(() => {});
      }),
    [autosave],
  );
  useSaveOnLeaving(autosave, async () => {
    const isAsBegun = autosave.isUntouched() && attachments.files === start.attachments;
    if (start.fresh && start.saved && isAsBegun) {
      // If that fails, it stays a draft.
      api.discardDraft({ id: start.saved.draftId }).then(
        () => refreshMail([]),
        () => {},
      );
    }
    if (autosave.isSettled()) return;
    try {
      await autosave.flush({ leaving: true });
      refreshMail([]);
    } catch (error) {
      autosave.end();
      toast({ text: `Not saved: ${(error as Error).message}`, tone: "danger" });
      reopenUnsavedMessage(asLeft());
      throw error;
    }
  });

  /** The present content, to open it again after a failed save. */
  function asLeft(): Start {
    const { saved: _, quote: __, ...begun } = start;
    const saved = autosave.draft();
    return {
      ...begun,
      fields,
      text,
      html: editor !== undefined,
      unsaved: true,
      attachments: attachments.files,
      ...(quote !== undefined && { quote }),
      ...(saved && { saved }),
      ...(richChanged.current && lastHtml.current !== undefined && { unsavedHtml: lastHtml.current }),
    };
  }

  const set = (name: keyof Fields) => (value: string) => {
    setFields((before) => ({ ...before, [name]: value }));
    autosave.touch();
  };
  useEffect(() => callbacks.current.titled?.(fields.subject), [fields.subject]);
  const save = () => void autosave.flush().catch(() => {});

  /** `isSure`: the person was asked already. */
  async function attempt({
    at,
    archives = false,
    isSure = false,
  }: {
    at?: Date;
    archives?: boolean;
    isSure?: boolean;
  } = {}): Promise<void> {
    if (busy) return;
    setRefusal(undefined);
    setDoubts(undefined);
    if (attachments.pending.length > 0) {
      setRefusal("Files are still being attached");
      return;
    }
    const about = listSendingDoubts({
      subject: asksSubject ? fields.subject : undefined,
      text: editor === undefined ? text : (rich.current?.text() ?? ""),
      files: attachments.files.filter(({ inline }) => !inline).length,
    });
    if (about.length > 0 && !isSure) {
      return setDoubts({ about, send: () => void attempt({ ...(at && { at }), archives, isSure: true }) });
    }
    setBusy(true);
    try {
      const { draftId, revision } = await autosave.ensure();
      const content = request();
      const outcome = await api.sendOpenedDraft({
        id: draftId,
        ...content,
        revision,
        attachments: attachments.files.map(({ id }) => id),
        at: at?.toISOString(),
      });
      autosave.end();
      sent(outcome, archives);
    } catch (error) {
      setRefusal(error instanceof Refusal && error.status === 0 ? UNSENT : (error as Error).message);
    } finally {
      setBusy(false);
    }
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void attempt();
  }

  async function discard(): Promise<void> {
    const isBlank = !autosave.draft() && autosave.isUntouched();
    if (!isBlank && !confirm("Discard this draft? It cannot be brought back.")) return;
    autosave.end();
    // The save under way may be the one that makes the draft.
    const draft = await autosave.flush();
    if (draft) await api.discardDraft({ id: draft.draftId }).catch(toastFailure);
    refreshMail([]);
    discarded();
  }

  /** Switches between plain and formatted text. */
  async function toggleFormat(): Promise<void> {
    try {
      if (editor !== undefined) {
        setText(rich.current?.text() ?? "");
        setEditor(undefined);
        autosave.touch();
        return;
      }
      const { draftId, revision } = await autosave.ensure();
      // As typed by now, not when the button was pressed.
      const { fields, text, quote } = present.current;
      const html = textToHtml(withQuote(text, quote));
      const formatted = await api.saveDraft({ id: draftId, ...fields, html, revision });
      autosave.adopt(formatted);
      richChanged.current = false;
      setQuote(undefined);
      setEditor(draftEditorUrl(formatted));
    } catch (error) {
      setRefusal((error as Error).message);
    }
  }

  /** Puts a template where the caret is, and its subject where there is none. */
  function insert(template: Template): void {
    if (fields.subject.trim() === "" && template.subject !== undefined && asksSubject) set("subject")(template.subject);
    if (editor !== undefined) {
      rich.current?.insert(template.text);
      return;
    }
    const { selectionStart = 0, selectionEnd = 0 } = area.current ?? {};
    setText(text.slice(0, selectionStart) + template.text + text.slice(selectionEnd));
    placeCaret(selectionStart + template.text.length);
    autosave.touch();
  }
  /** Content for a new template: the subject and the text, without the signature. */
  function templateContent(): Omit<Template, "name"> {
    const whole = editor === undefined ? text : (rich.current?.text() ?? "");
    const { subject } = fields;
    return {
      ...(subject.trim() !== "" && start.answers === undefined && { subject }),
      text: replaceSignature(whole, texts?.signature ?? "", "").trim(),
    };
  }
  const sendOn = ({ shiftKey }: { shiftKey: boolean }) => void attempt({ archives: shiftKey && mayArchive });

  function take(event: ClipboardEvent | DragEvent, data: DataTransfer): void {
    setOver(false);
    const files = [...data.files];
    if (files.length === 0) return;
    event.preventDefault();
    void attachments.attach(files);
  }

  return (
    <form
      onSubmit={submit}
      onPaste={(event) => take(event, event.clipboardData)}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => take(event, event.dataTransfer)}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        const sends = event.ctrlKey || event.metaKey;
        // Enter in a field does not submit the form.
        if (sends || event.target instanceof HTMLInputElement) event.preventDefault();
        if (sends) sendOn(event);
      }}
      className={`flex min-h-0 grow flex-col ${over ? "outline-2 -outline-offset-4 outline-accent outline-dashed" : ""}`}
    >
      <div className="divide-y divide-line border-b border-line px-4">
        {senders.length > 1 && <FromField value={fields.from} senders={senders} change={set("from")} />}
        <div className="flex items-start">
          <RecipientField
            label="To"
            mailbox={fields.from}
            value={fields.to}
            change={set("to")}
            left={save}
            autoFocus={start.fields.to === ""}
          />
          {!copies && (
            <button
              type="button"
              onClick={() => setCopies(true)}
              className="mt-1 shrink-0 rounded px-2 py-1 text-sm whitespace-nowrap text-muted hover:text-ink"
            >
              Cc Bcc
            </button>
          )}
        </div>
        {copies && (
          <>
            <RecipientField label="Cc" mailbox={fields.from} value={fields.cc} change={set("cc")} left={save} />
            <RecipientField label="Bcc" mailbox={fields.from} value={fields.bcc} change={set("bcc")} left={save} />
          </>
        )}
        {asksSubject && <SubjectField value={fields.subject} change={set("subject")} left={save} />}
      </div>
      {editor !== undefined ? (
        <RichEditor
          src={editor}
          initial={start.unsavedHtml}
          handle={rich}
          changed={() => {
            richChanged.current = true;
            autosave.touch();
          }}
          left={save}
          send={sendOn}
          close={close}
          attach={(files) => void attachments.attach(files)}
          autoFocus={start.fields.to !== ""}
        />
      ) : (
        <TextEditor
          area={area}
          text={text}
          change={(next) => {
            setText(next);
            autosave.touch();
          }}
          left={save}
          quote={quote}
          unfold={() => {
            setText(withQuote(text, quote));
            setQuote(undefined);
            autosave.touch();
          }}
          autoFocus={start.fields.to !== ""}
        />
      )}
      <AttachedFiles
        files={attachments.files}
        pending={attachments.pending}
        remove={(file) => void attachments.remove(file)}
        cancel={(one) => one.cancel()}
      />
      {refusal !== undefined && (
        <p role="alert" className="px-4 pb-2 text-sm text-danger">
          {refusal}
        </p>
      )}
      {state.kind === "conflict" && (
        <Conflict
          why={state.why}
          keep={() => {
            richChanged.current = editor !== undefined;
            autosave.detach();
            save();
          }}
          drop={() => {
            autosave.end();
            discarded();
          }}
        />
      )}
      <div className="flex items-center gap-1 border-t border-line px-3 py-2">
        <SendButton busy={busy} later={(at) => void attempt({ at })} />
        {mayArchive && (
          <Button
            disabled={busy}
            title="Send and archive (Ctrl+Shift+Enter)"
            onClick={() => void attempt({ archives: true })}
          >
            <Archive size={15} aria-hidden />
            <span className="max-sm:sr-only">Send and archive</span>
          </Button>
        )}
        <AttachButton attach={(files) => void attachments.attach(files)} />
        <IconButton
          icon={Type}
          label={editor === undefined ? "Format text" : "Plain text"}
          aria-pressed={editor !== undefined}
          onClick={() => void toggleFormat()}
        />
        {mailbox && texts && (
          <Templates
            mailboxId={mailbox.id}
            templates={texts.templates}
            manages={mailbox.access.manage}
            insert={insert}
            content={templateContent}
          />
        )}
        <SaveMark state={state} />
        <Button kind="quiet" onClick={() => void discard()} className="ml-auto">
          Discard
        </Button>
      </div>
      <Doubts doubts={doubts?.about ?? []} back={() => setDoubts(undefined)} send={() => doubts?.send()} />
    </form>
  );
}

/**
 * Puts the signature below the text, and replaces it when the message is sent from another mailbox. Returns a function
 * that places the caret once the text has changed.
 */
function useSignature(
  isOn: boolean,
  signature: string | undefined,
  area: RefObject<HTMLTextAreaElement | null>,
  text: string,
  setText: (change: (text: string) => string) => void,
): (at: number) => void {
  const inserted = useRef("");
  const caret = useRef<number>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of the value moves the caret to its end
  useLayoutEffect(() => {
    const at = caret.current;
    caret.current = undefined;
    if (at !== undefined) area.current?.setSelectionRange(at, at);
  }, [text, area]);
  useLayoutEffect(() => {
    if (!isOn || signature === undefined || signature === inserted.current) return;
    const before = inserted.current;
    inserted.current = signature;
    caret.current = area.current?.selectionStart;
    setText((text) => replaceSignature(text, before, signature));
  }, [isOn, signature, area, setText]);
  return (at) => {
    caret.current = at;
    area.current?.focus();
  };
}
