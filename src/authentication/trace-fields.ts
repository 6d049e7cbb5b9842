/** Writes the fields that this server puts on top of a message that arrives. Pure. */
import { dateHeader } from "../message/date.ts";
import type { SmtpContext } from "./evidence.ts";

/** Characters of a name or address that a client gave. */
const LONGEST = 500;

/** Makes a text that a client gave fit for a field: without characters that would end it or its part. */
const bare = (text: string): string => text.replace(/[\p{Cc}<>()\s]+/gu, "?").slice(0, LONGEST);

const literal = (ip: string): string => (ip.includes(":") ? `[IPv6:${ip}]` : `[${ip}]`);

/** Return-Path and Received of a message that came from a mailbox of this server. `id`: its Message.id. */
export const formatLocalTraceFields = ({
  reversePath,
  hostname,
  id,
  recipient,
  now,
}: Pick<SmtpContext, "reversePath" | "hostname" | "recipient" | "now"> & { id: string }): string =>
  [
    `Return-Path: <${bare(reversePath)}>`,
    `Received: by ${hostname} (Mailroom) id ${id}${wantedBy(recipient)};`,
    `\t${dateHeader(now)}`,
    "",
  ].join("\r\n");

const wantedBy = (recipient: string | undefined): string =>
  recipient === undefined ? "" : `\r\n\tfor <${bare(recipient)}>`;

/**
 * Return-Path, Received (RFC 5321 §4.4) and Authentication-Results (RFC 8601 §2.2) in whole lines. `results`: the value of the
 * last.
 */
export function formatTraceFields(
  { reversePath, helo, ip, tls, hostname, trace = "unknown", recipient, now }: SmtpContext,
  results: string,
): string {
  return [
    `Return-Path: <${bare(reversePath)}>`,
    `Received: from ${bare(helo) || "unknown"} (${literal(bare(ip))})`,
    `\tby ${hostname} (Mailroom) with ${tls ? "ESMTPS" : "ESMTP"} id ${trace}${wantedBy(recipient)};`,
    `\t${dateHeader(now)}`,
    `Authentication-Results: ${results.replaceAll("; ", ";\r\n\t")}`,
    "",
  ].join("\r\n");
}
