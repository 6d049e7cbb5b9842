/** Mail that is a report between mail systems, and mail that only resembles one. */
import { expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { parseMessage } from "../../src/message/parse.ts";
import { aggregateReportIn } from "../../src/message/report.ts";

const FILE = "receiver.example!example.test!1700000000!1700086399";
const SUBJECT = "Report Domain: example.test Submitter: receiver.example Report-ID: <1@receiver.example>";
const GZIP = gzipSync("<feedback/>");
const ZIP = Buffer.from("PK\x03\x04 and so on", "latin1");

interface Shape {
  subject?: string;
  headers?: string[];
  text?: string;
  type?: string;
  filename?: string;
  content?: Uint8Array;
  /** A further part. */
  more?: string;
  root?: string;
}

async function recognised({ subject = SUBJECT, headers = [], text = "A report.", more, ...shape }: Shape) {
  const { type = "application/gzip", filename = `${FILE}.xml.gz`, content = GZIP, root = "multipart/mixed" } = shape;
  const message = [
    "From: noreply@receiver.example",
    `Subject: ${subject}`,
    ...headers,
    "MIME-Version: 1.0",
    `Content-Type: ${root}; boundary=b`,
    "",
    "--b",
    "Content-Type: text/plain",
    "",
    text,
    "--b",
    `Content-Type: ${type}; name="${filename}"`,
    "Content-Transfer-Encoding: base64",
    `Content-Disposition: attachment; filename="${filename}"`,
    "",
    Buffer.from(content).toString("base64"),
    ...(more === undefined ? [] : ["--b", more]),
    "--b--",
  ].join("\r\n");
  return aggregateReportIn(await parseMessage(Buffer.from(message)));
}

const TLS: Shape = {
  subject: "Report Domain: example.test Submitter: mail.receiver.example Report-ID: <735ff.e317+bf22029@mail.example>",
  headers: ["TLS-Report-Domain: example.test", "TLS-Report-Submitter: mail.receiver.example"],
  root: 'multipart/report; report-type="tlsrpt"',
  type: "application/tlsrpt+gzip",
  filename: `mail.${FILE}!001.json.gz`,
};

const REPORTS: [name: string, shape: Shape, kind: "dmarc" | "tls"][] = [
  ["DMARC, as RFC 7489 §7.2.1.1 has it", {}, "dmarc"],
  ["with a unique id", { filename: `${FILE}!abc123.xml.gz` }, "dmarc"],
  ["zipped", { type: "application/zip", filename: `${FILE}.zip`, content: ZIP }, "dmarc"],
  ["as unspecific data", { type: "application/octet-stream" }, "dmarc"],
  [
    "not compressed",
    { type: "text/xml", filename: `${FILE}.xml`, content: Buffer.from("\n<?xml?><feedback/>") },
    "dmarc",
  ],
  ["with other words before", { subject: "[Preview] Report Domain: example.test Submitter: r.example" }, "dmarc"],
  [
    "with braces",
    { subject: "Dmarc Aggregate Report Domain: {EXAMPLE.test} Submitter: {SES} Report-ID: {1}" },
    "dmarc",
  ],
  ["TLS, as RFC 8460 §5.3 has it", TLS, "tls"],
  ["TLS, not compressed", { ...TLS, type: "application/tlsrpt+json", content: Buffer.from('{"a":1}') }, "tls"],
];

test.each(REPORTS)("%s", async (_, shape, kind) => {
  expect(await recognised(shape)).toBe(kind);
});

const ORDINARY: [name: string, shape: Shape][] = [
  ["another subject", { subject: "Your invoice" }],
  ["about another domain than the file", { subject: SUBJECT.replace("example.test", "other.test") }],
  ["another file name", { filename: "report.xml.gz" }],
  ["a program by that name", { filename: `${FILE}.exe` }],
  ["a program inside", { content: Buffer.from("MZ program") }],
  ["nothing inside", { content: new Uint8Array() }],
  ["a second attachment", { more: "Content-Type: application/pdf; name=invoice.pdf\r\n\r\nx" }],
  ["a long message", { text: "Dear customer, ".repeat(400) }],
  ["TLS without its header fields", { ...TLS, headers: [] }],
  ["TLS with something else inside", { ...TLS, content: Buffer.from("MZ program") }],
];

test.each(ORDINARY)("ordinary: %s", async (_, shape) => {
  expect(await recognised(shape)).toBeUndefined();
});

test("a hostile name costs no time worth mentioning", async () => {
  expect(await recognised({ filename: `${"a!".repeat(20_000)}.gz`, subject: "report domain:".repeat(5_000) })).toBe(
    undefined,
  );
});
