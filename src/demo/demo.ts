/**
 * The demo workspace: people, mailboxes and mail to look around in. Its mail takes the way of all mail, from bytes
 * through prepareMessage and filing, so what is shown is what the appliance does. It is loaded whole or not at all.
 *
 * A data folder holds the demo when its workspace is called Demo and has example.test, a name under which no real mail
 * can exist (RFC 6761 §6.2).
 */
import { findCaller } from "../access/credentials.ts";
import { AppError } from "../errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { type PreparedMessage, prepareMessage } from "../mailbox/prepare.ts";
import { normalizeAddress, parseAddressList } from "../message/address.ts";
import { composeMessage } from "../message/compose.ts";
import { type Runtime, randomToken } from "../runtime.ts";
import { type Developers, SCOPES } from "../settings/developers.ts";
import { type Domains, makeDkimKeys } from "../settings/domains.ts";
import { hashPassword, type People } from "../settings/people.ts";
import type { Store, Tx } from "../store/store.ts";
import { ADA, ALIASES, BEN, CONVERSATIONS, type DemoConversation, type DemoMessage, SUPPORT } from "./conversations.ts";
