/**
 * Thunderbird without a window, driven by the protocol by which browsers are tested (Marionette): scripts run in the
 * program itself, with its own modules.
 */
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { installed } from "../programs.ts";
import { until } from "../until.ts";

export const thunderbird = installed("thunderbird");

/** Longest that a script runs, ms. */
const SCRIPT_MS = 60_000;

export interface Thunderbird {
  /** Runs the body of an async function, with `args`, and gives what it returns. Rejects with what it throws. */
  run(body: string, ...args: unknown[]): Promise<unknown>;
  stop(): Promise<void>;
}

/** A message as its window shows it. */
export interface ShownMessage {
  subject: string;
  from: ShownAddress[];
  to: ShownAddress[];
  cc: ShownAddress[];
  /** The words before the first file that it shows below the message. */
  body: string;
  /** The words of those files. */
  below: string;
  /** Images inside of the text, apart from those of `below`. */
  images: number;
  files: ShownFile[];
}
/** `email` is empty for an entry without an address. */
interface ShownAddress {
  name: string;
  email: string;
}
interface ShownFile {
  name: string;
  contentType: string;
  /** Absent for messages and empty files, which it does not give to scripts. */
  content?: Uint8Array;
}

/** A window that shows messages. */
export interface MessageWindow {
  /** Opens the .eml file at this path. */
  show(path: string): Promise<ShownMessage>;
  /** Puts this document into the place of the message. @returns its words, and the number of its images */
  showDocument(html: string): Promise<{ text: string; images: number }>;
}

export async function startThunderbird(): Promise<Thunderbird> {
  const home = temporaryFolder();
  const port = await takePort();
  const preferences = {
    "marionette.port": port,
    "app.update.enabled": false,
    "datareporting.policy.dataSubmissionEnabled": false,
    "mailnews.start_page.enabled": false,
    "mail.provider.suppress_dialog_on_startup": true,
  };
  const lines = Object.entries(preferences).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});\n`);
  writeFileSync(join(home, "user.js"), lines.join(""));
  const program = Bun.spawn(
    [
      ...[thunderbird.path, "--headless", "--no-remote", "--marionette", "-remote-allow-system-access"],
      ...["--profile", home],
    ],
    { env: { ...process.env, HOME: home }, stdin: "ignore", stdout: "ignore", stderr: "ignore" },
  );
  let received = Buffer.alloc(0);
  const waiting: ((message: unknown) => void)[] = [];
  const reach = () =>
    new Promise<Socket | undefined>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket));
      socket.once("error", () => resolve(undefined));
    });
  let found: Socket | undefined;
  await until(async () => {
    found = await reach();
    return found;
  });
  const socket = found as unknown as Socket;
  /** Each message is JSON after its length and a colon. */
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (;;) {
      const colon = received.indexOf(":");
      const end = colon + 1 + Number(received.subarray(0, Math.max(0, colon)).toString());
      if (colon < 0 || received.length < end) return;
      const message = JSON.parse(received.subarray(colon + 1, end).toString());
      received = received.subarray(end);
      waiting.shift()?.(message);
    }
  });
  const next = () => new Promise<unknown>((resolve) => waiting.push(resolve));
  let id = 0;
  async function command(name: string, parameters: object): Promise<{ value?: unknown }> {
    const text = JSON.stringify([0, ++id, name, parameters]);
    socket.write(`${Buffer.byteLength(text)}:${text}`);
    const [, , error, result] = (await next()) as [number, number, { message: string } | null, { value?: unknown }];
    if (error) throw new Error(error.message);
    return result;
  }
  await next();
  await command("WebDriver:NewSession", { capabilities: {} });
  await command("Marionette:SetContext", { value: "chrome" });
  await command("WebDriver:SetTimeouts", { script: SCRIPT_MS });
  return {
    async run(body, ...args) {
      const script = `const done = arguments[arguments.length - 1];
        (async (...args) => { ${body} })(...arguments).then((value) => done({ value }), (error) => done({ error: String(error) }));`;
      const { value } = await command("WebDriver:ExecuteAsyncScript", { script, args, newSandbox: false });
      const { value: returned, error } = value as { value?: unknown; error?: string };
      if (error !== undefined) throw new Error(error);
      return returned;
    },
    async stop() {
      socket.destroy();
      program.kill();
      await program.exited;
    },
  };
}

/** Opens a window for messages, with the .eml file at `path`, which it shows as its sender made them. */
export async function openMessageWindow({ run }: Pick<Thunderbird, "run">, path: string): Promise<MessageWindow> {
  await run(
    `${UNTIL}
     // Smileys are images otherwise.
     Services.prefs.setBoolPref("mail.display_glyph", false);
     const uri = Services.io.newURI(args[0]);
     const window = Services.ww.openWindow(null, "chrome://messenger/content/messageWindow.xhtml", "", "all,chrome,dialog=no", uri);
     await until(() => window.messageBrowser?.contentWindow?.msgLoaded);`,
    uriOf(path),
  );
  return {
    async show(path) {
      const shown = (await run(
        `${UNTIL}${READER}
         const before = pane.contentDocument;
         // Before it is laid out, hidden text counts as shown. Some pages never load whole.
         const isShown = (document) => reader.msgLoaded && document !== before && document?.body &&
           (document.body.getClientRects().length > 0 || document.readyState === "complete");
         do reader.displayMessage(args[0]);
         while (!(await until(() => isShown(pane.contentDocument), RETRY_MS)));
         const { currentHeaderData: fields, currentAttachments } = reader;
         const { NetUtil } = ChromeUtils.importESModule("resource://gre/modules/NetUtil.sys.mjs");
         const { MailServices } = ChromeUtils.importESModule("resource:///modules/MailServices.sys.mjs");
         const addresses = (field) => MailServices.headerParser.parseEncodedHeaderW(fields[field]?.headerValue ?? "")
           .map(({ name, email }) => ({ name, email }));
         const fetched = (uri) => new Promise((done, fail) => NetUtil.asyncFetch({ uri, loadUsingSystemPrincipal: true },
           (stream, status) => Components.isSuccessCode(status)
             ? done(btoa(NetUtil.readInputStreamToString(stream, stream.available()))) : fail(new Error(uri + ": " + status))));
         const late = () => new Promise((done) => setTimeout(done, RETRY_MS));
         const read = async (uri) => (await Promise.race([fetched(uri), late()])) ?? (await read(uri));
         const files = [];
         for (const { name, contentType, size, url } of [...currentAttachments]) {
           const isRead = size > 0 && !contentType.startsWith("message/");
           files.push({ name, contentType, ...(isRead && { content: await read(url) }) });
         }
         const document = pane.contentDocument;
         const { body } = document;
         const remove = (selector) => { for (const one of document.querySelectorAll(selector)) one.remove(); };
         for (const label of document.querySelectorAll(".moz-header-display-name"))
           if (label.textContent.startsWith("Date:")) label.closest("tr").remove();
           else label.textContent = " ";
         const name = "legend.moz-mime-attachment-header-name";
         const below = document.querySelector(name) && document.createRange();
         below?.setStartBefore(document.querySelector(name).parentElement);
         below?.setEndAfter(body.lastChild);
         remove(".moz-main-header, .moz-print-only, " + name);
         const whole = below ? body.innerText : "";
         below?.deleteContents();
         const images = [...document.images].filter(({ src, className }) =>
           src.startsWith("mailbox:") && className !== "moz-attached-image").length;
         return { subject: fields.subject?.headerValue ?? "", from: addresses("from"), to: addresses("to"),
           cc: addresses("cc"), body: body.innerText, below: whole, images, files };`,
        uriOf(path),
      )) as Omit<ShownMessage, "files"> & { files: (Omit<ShownFile, "content"> & { content?: string })[] };
      const files = shown.files.map(({ content, ...file }) =>
        content === undefined ? file : { ...file, content: Buffer.from(content, "base64") },
      );
      return { ...shown, files };
    },
    async showDocument(html) {
      return (await run(
        `${READER}
         const document = pane.contentDocument;
         document.documentElement?.remove();
         document.append(document.adoptNode(new win.DOMParser().parseFromString(args[0], "text/html").documentElement));
         return { text: document.body.innerText, images: document.images.length };`,
        html,
      )) as { text: string; images: number };
    },
  };
}

const uriOf = (path: string): string => `${pathToFileURL(path)}?type=application/x-message-display`;
/** Once in thousands of times it drops what it was asked to load: after `RETRY_MS` it is asked again. */
const UNTIL = `const RETRY_MS = 15_000;
  const until = async (holds, most = Infinity) => {
    for (const begin = Date.now(); !holds(); await new Promise((next) => setTimeout(next, 1)))
      if (Date.now() - begin > most) return false;
    return true;
  };`;
const READER = `const win = Services.wm.getMostRecentWindow("mail:messageWindow");
  const reader = win.messageBrowser.contentWindow;
  const pane = reader.document.getElementById("messagepane");`;
