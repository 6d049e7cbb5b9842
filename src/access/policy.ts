/**
 * Policies of API keys (rules: Policies): what a policy says, which addresses it lets a key write to, and whether one
 * policy is within another. Everything here is pure; outbound/judgement.ts asks it about a message, and caller.ts about
 * mailboxes.
 */
import { AppError } from "../base/errors.ts";
import { parseTime } from "../base/time.ts";
import { envelopeAddress, isAddressLiteral, splitAddress, withoutAddressTag } from "../message/address.ts";
import { canonicalNetwork, createNetworkMatcher, networkContains } from "../net/ip.ts";
import type { Policy } from "../store/schema.ts";

/** Entries of `recipients` that stand for people the server finds. */
const RECIPIENT_WORDS = ["thread", "workspace", "known"] as const;
export type RecipientWord = (typeof RECIPIENT_WORDS)[number];

const isWord = (entry: string): entry is RecipientWord => RECIPIENT_WORDS.some((word) => word === entry);

/**
 * The form in which addresses are compared: without `+tag`, the local part in ASCII lower case and otherwise byte for
 * byte, the domain in A-labels. Undefined for text that is no address of a mailbox.
 */
export function comparableAddress(text: string): string | undefined {
  const address = envelopeAddress(text);
  if (address === undefined || isAddressLiteral(address)) return undefined;
  const { local, domain } = splitAddress(address);
  const untagged = local.startsWith('"') ? local : withoutAddressTag(local);
  if (untagged.startsWith("+")) return undefined;
  return `${untagged.replace(/[A-Z]/g, (letter) => letter.toLowerCase())}@${domain}`;
}

/** `@domain` in A-labels. */
const comparableDomain = (entry: string): string | undefined => comparableAddress(`x${entry}`)?.slice(1);

/** A request that the policy of its key does not allow; the journal has an entry of it. */
export class PolicyRefusal extends AppError {}

const wrong = (field: string, what: string) => new AppError("bad_request", `policy.${field}: ${what}`);

/**
 * Brings the fields of a policy, whose types and time are checked, into their one spelling. `mailboxNamed` gives a mailbox of the
 * workspace, named by id or address, in the spelling to keep. @throws AppError bad_request
 */
export function normalizeKeyPolicy(given: Policy, mailboxNamed: (text: string) => string | undefined): Policy {
  const { mailboxes, recipients, networks } = given;
  const unique = (list: string[]) => [...new Set(list)];
  return {
    ...given,
    ...(mailboxes && {
      mailboxes: unique(
        mailboxes.map((text) => {
          const mailbox = mailboxNamed(text);
          if (mailbox === undefined) throw wrong("mailboxes", `there is no mailbox ${JSON.stringify(text)}`);
          return mailbox;
        }),
      ),
    }),
    ...(recipients && { recipients: unique(recipients.map(readRecipient)) }),
    ...(networks && {
      networks: unique(
        networks.map((text) => {
          const network = canonicalNetwork(text);
          if (network === undefined) throw wrong("networks", "give CIDRs, such as 10.0.0.0/8, or addresses");
          return network;
        }),
      ),
    }),
  };
}

function readRecipient(entry: string): string {
  if (isWord(entry)) return entry;
  const read = entry.startsWith("@") ? comparableDomain(entry) : comparableAddress(entry);
  if (read !== undefined) return read;
  throw wrong(
    "recipients",
    `${JSON.stringify(entry)} is neither an address nor @domain, nor one of ${RECIPIENT_WORDS.join(", ")}`,
  );
}

/** When the key expires, epoch ms. */
const policyExpiry = ({ expiresAt }: Policy): number | undefined =>
  expiresAt === undefined ? undefined : (parseTime(expiresAt) ?? 0);

export const isKeyPolicyExpired = (policy: Policy, now: number): boolean => (policyExpiry(policy) ?? Infinity) <= now;

/** True if the key may be used from that address, as canonicalIpAddress gives it; undefined for an unknown one. */
export const policyAllowsClientAddress = ({ networks }: Policy, address: string | undefined): boolean =>
  networks === undefined || (address !== undefined && createNetworkMatcher(networks)(address));

/** True if the policy leaves the mailbox to the key. */
export const policyAllowsMailbox = ({ mailboxes }: Policy, { id, address }: { id: string; address: string }): boolean =>
  mailboxes === undefined || mailboxes.includes(id) || mailboxes.includes(address);

/**
 * The addresses that `recipients` does not let a key write to. `isIn` tells whether a comparable address is among
 * the people that a word stands for.
 */
export function listForbiddenRecipients(
  { recipients: entries }: Pick<Policy, "recipients">,
  addresses: readonly string[],
  isIn: (word: RecipientWord, address: string) => boolean,
): string[] {
  if (entries === undefined) return [];
  const named = new Set(entries);
  const words = entries.filter(isWord);
  return addresses.filter((text) => {
    const address = comparableAddress(text);
    if (address === undefined) return true;
    if (named.has(address) || named.has(`@${splitAddress(address).domain}`)) return false;
    return !words.some((word) => isIn(word, address));
  });
}

/**
 * The first field by which a policy allows more than `bounds`; undefined if it is at least as narrow. `resolveMailboxId`
 * gives the id of a mailbox that a policy names.
 */
export function findWiderPolicyField(
  policy: Policy,
  bounds: Policy,
  resolveMailboxId: (mailbox: string) => string,
): keyof Policy | undefined {
  const within: Record<keyof Policy, () => boolean> = {
    mailboxes: () => {
      const allowed = new Set(bounds.mailboxes?.map(resolveMailboxId));
      return isAmong(policy.mailboxes, bounds.mailboxes, (mailbox) => allowed.has(resolveMailboxId(mailbox)));
    },
    recipients: () =>
      isAmong(policy.recipients, bounds.recipients, (entry, allowed) => {
        const { domain } = splitAddress(entry);
        return allowed.includes(entry) || (!isWord(entry) && allowed.includes(`@${domain}`));
      }),
    otherwise: () => bounds.recipients === undefined || bounds.otherwise === "hold" || policy.otherwise !== "hold",
    send: () => bounds.send !== "hold" || policy.send === "hold",
    recipientsPerDay: () => isAtMost(policy.recipientsPerDay, bounds.recipientsPerDay),
    changesPerHour: () => isAtMost(policy.changesPerHour, bounds.changesPerHour),
    expiresAt: () => isAtMost(policyExpiry(policy), policyExpiry(bounds)),
    networks: () =>
      isAmong(policy.networks, bounds.networks, (network, allowed) =>
        allowed.some((outer) => networkContains(outer, network)),
      ),
    codes: () => bounds.codes !== false || policy.codes === false,
  };
  return (Object.keys(within) as (keyof Policy)[]).find((field) => !within[field]());
}

/**
 * A policy that is as narrow as `bounds`, too: a list keeps the entries that they allow; another field that allows more becomes
 * theirs.
 */
export function narrowKeyPolicy(policy: Policy, bounds: Policy, resolveMailboxId: (mailbox: string) => string): Policy {
  const wider = (of: Policy) => findWiderPolicyField(of, bounds, resolveMailboxId);
  let narrowed = policy;
  for (let field = wider(narrowed); field !== undefined; field = wider(narrowed)) {
    const [name, own] = [field, narrowed[field]];
    const left = Array.isArray(own)
      ? own.filter((entry) => wider({ ...bounds, [name]: [entry] }) === undefined)
      : bounds[name];
    narrowed = { ...narrowed, [name]: left };
  }
  return narrowed;
}

const isAtMost = (value: number | undefined, most: number | undefined): boolean =>
  most === undefined || (value !== undefined && value <= most);

const isAmong = (
  list: string[] | undefined,
  bounds: string[] | undefined,
  isAllowed: (entry: string, bounds: string[]) => boolean,
): boolean => bounds === undefined || (list?.every((entry) => isAllowed(entry, bounds)) ?? false);
