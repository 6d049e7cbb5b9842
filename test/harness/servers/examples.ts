/** An appliance in which the examples of all operations can be run: whatever they name exists. */
import * as developers from "../../../src/admin/developers.ts";
import * as domains from "../../../src/admin/domains.ts";
import * as people from "../../../src/admin/people.ts";
import { ADMIN_API, type Surface } from "../../../src/api/surfaces.ts";
import { SCOPES } from "../../../src/store/schema.ts";
import { mailer } from "../mail/mail.ts";
import { zone } from "../peers/dns-server.ts";
import { type Booted, boot } from "./boot.ts";

/** The address at which Ada has her mailbox, in examples. */
const ADA = "ada@example.com";
/** Mail to these waits, since their DNS fails. */
const AWAY = ["example.net", ...Array.from({ length: 9 }, (_, n) => `n${n}.example.net`)];
const BEN = "ben@example.net";

export const PDF = Buffer.from("%PDF-1.7 \xff\x00 not text", "latin1");

const LETTER = `From: Ben Okafor <${BEN}>
To: Ada <${ADA}>
Subject: Contract
Message-ID: <contract@example.net>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

Signed.
--b
Content-Type: application/pdf; name=contract.pdf
Content-Disposition: attachment; filename=contract.pdf
Content-Transfer-Encoding: base64

${PDF.toString("base64")}
--b--
`;

export interface ExampleWorld extends Booted {
  /** Ada. */
  userId: string;
  /** A key of Ada's, who owns the workspace, with all scopes. */
  key: string;
  /** Makes new things for the parameters of a path, as OpenAPI writes it. Returns what names them, by parameter. */
  paramsFor(surface: Surface, path: string): Promise<Record<string, string>>;
}

/** `env`, `options`: as for boot. */
export async function bootExamples(
  env: Parameters<typeof boot>[0] = {},
  options: Parameters<typeof boot>[2] = {},
): Promise<ExampleWorld> {
  const booted = await boot(env, zone(Object.fromEntries(AWAY.map((name) => [name, "SERVFAIL"]))), options);
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId } = booted.owner;
  const add = (email: string, role: "owner" | "member") =>
    store.transact((tx) => people.addUser(core, tx, { workspaceId, email, name: email, role, ownMailbox: true }));
  const { id } = store.transact((tx) => domains.addDomain(core, tx, workspaceId, "example.com", []));
  store.transact((tx) => domains.markDomainVerified(core, tx, id));
  const { userId } = add(ADA, "owner");
  add("ben@example.com", "member");
  const { key } = store.transact((tx) => developers.createKey(core, tx, { userId, name: "Examples", scopes: SCOPES }));

  const remote = mailer(booted.mx);
  await remote.send({ from: BEN, to: ADA }, LETTER);
  remote.close();

  const api = booted.apiWith(key);
  const made = async (path: string, body: object): Promise<string> => {
    const { status, body: answer } = await api.post(path, body);
    if (status >= 300) throw new Error(`${path} answers ${status}: ${JSON.stringify(answer)}`);
    return String(answer.id);
  };
  const admin = (path: string, body: object) => made(`/api/admin/v1${path}`, body);
  let count = 0;
  let queued = 0;
  const newAddress = () => `made${++count}@example.com`;
  const newMailbox = () => admin("/mailboxes", { address: newAddress(), name: "Made" });
  const newPerson = () => admin("/people", { email: newAddress(), name: "Made", role: "member", mailbox: false });

  const found = async () => {
    const { body } = await api.get<{ messages: { id: string; threadId: string }[] }>("/messages?direction=inbound");
    const [message] = body.messages;
    if (!message) throw new Error("no mail has arrived");
    return message;
  };

  const MAIL: Record<string, () => Promise<string>> = {
    threads: async () => (await found()).threadId,
    messages: async () => (await found()).id,
    async attachments() {
      const { id } = await found();
      const { body } = await api.get<{ message: { attachments: { id: string }[] } }>(`/messages/${id}`);
      return body.message.attachments[0]?.id ?? "";
    },
    drafts: () => made("/api/ext/v1/drafts", { to: "carol@example.net", subject: "Made", text: "Hello" }),
    async labels() {
      const label = `Made ${++count}`;
      await api.patch(`/threads/${(await found()).threadId}`, { addLabels: [label] });
      return label;
    },
  };

  const ADMIN: Record<string, () => Promise<string>> = {
    mailboxes: newMailbox,
    people: newPerson,
    domains: () => admin("/domains", { name: `made${++count}.example` }),
    suppressions: () => admin("/suppressions", { address: newAddress() }),
    keys: () => admin("/keys", { name: "Made", scopes: ["read"] }),
    webhooks: () => admin("/webhooks", { url: "https://hooks.example.com/", events: ["message.inbound"] }),
    async holds() {
      const agent = store.transact((tx) =>
        developers.createKey(core, tx, { userId, name: "Agent", scopes: ["send"], policy: { send: "hold" } }),
      );
      const sent = await booted.apiWith(agent.key).post<{ emailId: string }>("/send", {
        ...{ from: ADA, to: "carol@example.net", text: "Hello" },
      });
      return sent.body.emailId;
    },
    async queue() {
      // A new attempt at one entry, which is one at its domain, does not touch another.
      await made("/send", { from: ADA, to: `carol@${AWAY[++queued % AWAY.length]}`, text: "Hello" });
      await booted.server.settled();
      const { body } = await api.get<{ queue: { id: string }[] }>("/api/admin/v1/queue?limit=100");
      return body.queue.at(-1)?.id ?? "";
    },
  };

  const paramsFor: ExampleWorld["paramsFor"] = async (surface, path) => {
    const [, group = "", first, below = "", second] = path.split("/");
    if (first === undefined) return {};
    const make = (surface === ADMIN_API ? ADMIN : MAIL)[group];
    if (!make) throw new Error(`nothing is made for ${path}: say how in harness/servers/examples.ts`);
    const params: Record<string, string> = { [first.slice(1, -1)]: await make() };
    if (second === "{alias}") {
      params.alias = newAddress();
      await admin(`/${group}/${params.id}/${below}`, { alias: params.alias });
    }
    if (second === "{userId}") {
      params.userId = await newPerson();
      await admin(`/${group}/${params.id}/${below}`, { user: params.userId, access: "view" });
    }
    if (second === "{delivery}") params.delivery = await admin(`/${group}/${params.id}/test`, {});
    return params;
  };

  return { ...booted, userId, key, paramsFor };
}
