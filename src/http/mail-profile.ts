/**
 * The configuration profile that sets up Mail on iPhone, iPad and Mac (rules: Settings of mail apps), for a person who
 * is signed in. It contains no password: the device asks for it.
 */
import { createHash } from "node:crypto";
import { type Caller, chooseOwnMailbox, findReachableMailboxes, type Reach } from "../access/caller.ts";
import { downloadResponse } from "../api/download.ts";
import { AppError } from "../base/errors.ts";
import { APP_ROUTES } from "../operations/app-routes.ts";
import { hasMailProfile, type MailApps } from "../operations/operation.ts";
import type { Reader } from "../store/core.ts";
import type { KeyPair } from "../tls/certificates.ts";
import { canKeyPairSignFiles, signFile } from "../tls/sign.ts";
import type { Route } from "./route.ts";

type Plist = string | number | boolean | readonly Plist[] | { readonly [key: string]: Plist };

function formatPlist(value: Plist): string {
  if (typeof value === "string") return `<string>${Bun.escapeHTML(value)}</string>`;
  if (typeof value === "number") return `<integer>${value}</integer>`;
  if (typeof value === "boolean") return value ? "<true/>" : "<false/>";
  if (Array.isArray(value)) return `<array>\n${value.map(formatPlist).join("\n")}\n</array>`;
  const entries = Object.entries(value).map(([key, of]) => `<key>${Bun.escapeHTML(key)}</key>\n${formatPlist(of)}`);
  return `<dict>\n${entries.join("\n")}\n</dict>`;
}

/** Makes a UUID of a text. Equal texts give the same, so that a profile replaces the one before it. */
function hashToUuid(text: string): string {
  const bytes = createHash("sha256").update(text).digest().subarray(0, 16);
  // A custom UUID (RFC 9562 §5.8).
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return bytes
    .toString("hex")
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
    .toUpperCase();
}

function profileFor({ email }: Caller, { address, name }: Reach["mailbox"], mailApps: MailApps): string {
  const { host, imap, imaps, submission, submissions } = mailApps;
  const identifier = `${host}.${address}`;
  const account = {
    PayloadType: "com.apple.mail.managed",
    PayloadVersion: 1,
    PayloadIdentifier: `${identifier}.mail`,
    PayloadUUID: hashToUuid(`${identifier}.mail`),
    PayloadDisplayName: address,
    EmailAccountDescription: address,
    EmailAccountName: name,
    EmailAccountType: "EmailTypeIMAP",
    EmailAddress: address,
    IncomingMailServerAuthentication: "EmailAuthPassword",
    IncomingMailServerHostName: host,
    IncomingMailServerPortNumber: (imaps ?? imap) as number,
    // With STARTTLS where the port has no TLS from the start.
    IncomingMailServerUseSSL: true,
    IncomingMailServerUsername: email,
    OutgoingMailServerAuthentication: "EmailAuthPassword",
    OutgoingMailServerHostName: host,
    OutgoingMailServerPortNumber: (submissions ?? submission) as number,
    OutgoingMailServerUseSSL: true,
    OutgoingMailServerUsername: email,
    OutgoingPasswordSameAsIncomingPassword: true,
  };
  const profile = {
    PayloadType: "Configuration",
    PayloadVersion: 1,
    PayloadIdentifier: identifier,
    PayloadUUID: hashToUuid(identifier),
    PayloadDisplayName: `Mail for ${address}`,
    PayloadDescription: `Sets up Mail for ${address} at ${host}. It asks for a password: give it an app password.`,
    PayloadOrganization: host,
    PayloadContent: [account],
  };
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
${formatPlist(profile)}
</plist>
`;
}

export function mailProfileRoute(
  { db, now }: Reader,
  {
    mailApps,
    certificate,
  }: {
    mailApps: MailApps;
    /** The certificate of the listeners, if there is one. */
    certificate(): KeyPair | undefined;
  },
): Route {
  return {
    ...APP_ROUTES.getMailProfile,
    async run({ session: { caller } }) {
      const own = chooseOwnMailbox(
        caller,
        [...findReachableMailboxes(db, caller).values()].filter(({ access }) => access.read),
      );
      if (!own || !hasMailProfile(mailApps)) throw new AppError("not_found", "There is no profile for you here");
      const profile = Buffer.from(profileFor(caller, own.mailbox, mailApps));
      const pair = certificate();
      return downloadResponse({
        filename: `${own.mailbox.address}.mobileconfig`,
        contentType: "application/x-apple-aspen-config",
        content: pair && canKeyPairSignFiles(pair) ? await signFile(profile, pair, now()) : profile,
      });
    },
  };
}
