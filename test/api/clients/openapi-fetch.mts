/** Uses the mail and administration APIs through openapi-fetch, with types that openapi-typescript made of their documents. */
import createClient from "openapi-fetch";
import type { paths as AdminPaths } from "./admin.ts";
import type { paths as MailPaths } from "./mail.ts";

const { MAILROOM_URL = "", MAILROOM_KEY = "" } = process.env;
const headers = { Authorization: `Bearer ${MAILROOM_KEY}` };
const api = createClient<MailPaths>({ baseUrl: `${MAILROOM_URL}/api/v1`, headers });

/** Returns the data of an answer. */
function must<T>({ data, error }: { data?: T; error?: { code: string } }): T {
  if (data === undefined) throw new Error(error?.code);
  return data;
}

function check(holds: boolean | undefined, what: string): void {
  if (!holds) throw new Error(what);
}

const from = must(await api.GET("/mailboxes")).mailboxes[0]?.address ?? "";
const thread = must(await api.GET("/threads")).threads[0];
const path = { id: thread?.id ?? "" };
const found = must(await api.GET("/search", { params: { query: { q: "signed has:attachment" } } }));
check(found.threads[0]?.id === path.id, "another conversation was found");
const { messages } = must(await api.GET("/threads/{id}", { params: { path } }));
const ofMessage = { id: messages[0]?.id ?? "" };
const { message } = must(await api.GET("/messages/{id}", { params: { path: ofMessage } }));
const body = { starred: true, addLabels: ["Generated"] };
check(must(await api.PATCH("/threads/{id}", { params: { path }, body })).thread.starred, "not starred");

const [attachment] = message.attachments;
const ofAttachment = { path: { id: attachment?.id ?? "" } };
const pdf = must(await api.GET("/attachments/{id}", { params: ofAttachment, parseAs: "arrayBuffer" }));
check(pdf.byteLength === attachment?.size, "the attachment has another size");
const raw = must(await api.GET("/messages/{id}/raw", { params: { path: ofMessage }, parseAs: "text" }));
check(raw.includes("Subject: Contract"), "no message");

const common = { from, to: ["ben@example.net"], text: "See the file." };
const once = { params: { header: { "Idempotency-Key": "once" } } };
const content = Buffer.from(pdf).toString("base64");
const request = { ...common, subject: "base64", attachments: [{ filename: "copy.pdf", content }] };
const sent = must(await api.POST("/send", { ...once, body: request }));
check(must(await api.POST("/send", { ...once, body: request })).messageId === sent.messageId, "sent twice");
const form = must(
  await api.POST("/send", {
    body: { ...common, subject: "form" },
    bodySerializer(written) {
      const data = new FormData();
      data.append("request", new Blob([JSON.stringify(written)], { type: "application/json" }));
      data.append("files", new File([pdf], "copy.pdf", { type: "application/pdf" }));
      return data;
    },
  }),
);
check(form.ok, "no form");
const { error } = await api.GET("/threads/{id}", { params: { path: { id: "none" } } });
check(error?.code === "not_found", "something was found");

const admin = createClient<AdminPaths>({ baseUrl: `${MAILROOM_URL}/api/admin/v1`, headers });
must(await admin.POST("/suppressions", { body: { address: "zoe@example.net" } }));
const { suppressions, nextCursor } = must(await admin.GET("/suppressions"));
check(suppressions[0]?.address === "zoe@example.net" && nextCursor === null, "another list");
