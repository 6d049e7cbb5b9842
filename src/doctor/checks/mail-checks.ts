/** Checks of the mail service: DNS records of the domains, the way out, the outbound queue. */
import type { DnsRecord, FoundRecord } from "../../admin/dns.ts";
import { type DomainEntry, listDomains, lookUpDomainRecords } from "../../admin/domains.ts";
import type { Log } from "../../base/log.ts";
import { findMailHosts } from "../../outbound/next-hop.ts";
import { NOT_LISTED, readSmarthost, trySmarthost } from "../../outbound/transport.ts";
import { statement } from "../../store/statement.ts";
import { isWorkspaceServed } from "../../store/unserved-workspaces.ts";
import type { Check, Finding, World } from "../check.ts";
import { describeSpf } from "./origin.ts";

/* The DNS records of each domain: for mail to it, and for the authentication of mail from it. */

const NAMES: Record<DnsRecord["purpose"], string> = {
  mx: "MX",
  spf: "SPF",
  dkim: "DKIM",
  dmarc: "DMARC",
  ownership: "Ownership",
  "mta-sts": "MTA-STS",
  "tls-rpt": "TLS reports",
  "mail-apps": "Settings for mail apps",
};

const WHY: Record<DnsRecord["purpose"], string> = {
  mx: "Mail for the domain does not come here without it",
  spf: "Mail from the domain is taken for spam without it",
  dkim: "Mail from the domain is taken for forged without it",
  dmarc: "Large providers refuse mail of a domain without it",
  ownership: "The domain cannot be verified without it",
  "mta-sts": "Other servers do not insist on TLS to this one without it",
  "tls-rpt": "Other servers do not report failures of TLS without it",
  "mail-apps": "People have to type servers and ports into some mail apps without it",
};

/** Checks one claim to each name, the verified or else the oldest: records of the others need not be published. */
export const checkDomains: Check = async (world) => {
  // Records of a domain that has left lead to another server.
  const served = listDomains(world).filter(({ workspaceId }) => isWorkspaceServed(world.store.db, workspaceId));
  const names = Map.groupBy(served, ({ name }) => name);
  return (await Promise.all([...names.values()].map(([first]) => (first ? look(world, first) : [])))).flat();
};

async function look(world: World, { id, name, verifiedAt, takesMail }: DomainEntry) {
  const records = await lookUpDomainRecords(world, id);
  // A missing optional record is its owner's choice. Those for mail apps are worth a word.
  const asked = records.filter(
    ({ optional, state, purpose }) => !optional || state === "found" || purpose === "mail-apps",
  );
  const byPurpose = Map.groupBy(asked, ({ purpose }) => purpose);
  // A verified domain no longer needs its ownership record.
  if (verifiedAt !== null) byPurpose.delete("ownership");
  const findings = await Promise.all(
    [...byPurpose].map(async ([purpose, of]) => {
      const finding = buildDnsFinding(purpose, name, of);
      return purpose === "spf" && finding.state === "ok"
        ? { ...finding, ...(await describeSpf(world, name)) }
        : finding;
    }),
  );
  return verifiedAt === null ? [unverified(name, takesMail), ...findings] : findings;
}

const unverified = (domain: string, takesMail: boolean): Finding => ({
  id: `verified:${domain}`,
  name: `${domain} is verified`,
  state: "warning",
  detail: takesMail
    ? "it is not, and takes mail as before only until another workspace verifies it"
    : "it is not: no mail comes to it, and none can be sent from it",
  todo: `Publish the records that \`mailroom domain dns ${domain}\` prints, then run \`mailroom domain verify ${domain}\`.`,
});

function buildDnsFinding(purpose: DnsRecord["purpose"], domain: string, records: readonly FoundRecord[]): Finding {
  const base = { id: `${purpose}:${domain}`, name: `${NAMES[purpose]} of ${domain}` };
  const missing = records.filter(({ state }) => state === "missing");
  if (missing.length > 0) {
    const publish = missing.map(({ type, name, value }) => `${name} ${type} ${value}`).join("; ");
    return {
      ...base,
      state: purpose === "mail-apps" ? "warning" : "bad",
      detail: "it is not published as it should be",
      todo: `${WHY[purpose]}. Publish: ${publish}`,
    };
  }
  if (records.some(({ state }) => state === "unanswered"))
    return { ...base, state: "unknown", detail: "DNS does not answer" };
  return { ...base, state: "ok", detail: "it is published" };
}

/* The way out: port 25 of well-known mail servers, which many providers block; or the smarthost. */

/** Domains whose mail servers are always up. */
const WELL_KNOWN = ["gmail.com", "outlook.com", "yahoo.com"];

const NAME = "Outbound mail";

export const checkOutbound: Check = async (world) => {
  const setting = world.options.get("smtp.relay");
  return [setting === "none" ? await checkPort(world) : await checkRelay(world, setting)];
};

async function checkPort({ options, runtime, system, config }: World): Promise<Finding> {
  const base = { id: "outbound", name: NAME } as const;
  const port = options.get("smtp.outboundPort");
  const hostname = config.hostname;
  const reasons: string[] = [];
  let isResolved = false;
  for (const domain of WELL_KNOWN) {
    try {
      const [host] = await findMailHosts(domain, { runtime, hostname });
      const [address] = (await host?.addresses()) ?? [];
      if (!host || address === undefined) continue;
      isResolved = true;
      const { line = "" } = await system.greet(address, port, "line");
      if (line.startsWith("220")) return { ...base, state: "ok", detail: `${host.name} answers on port ${port}` };
      reasons.push(`${host.name} says ${line}`);
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  const detail = `no mail server of ${WELL_KNOWN.join(", ")} could be reached: ${reasons[0] ?? "none has an address"}`;
  if (!isResolved) {
    const todo = "See that DNS works on this machine (resolvectl status), or name resolvers that do in MAILROOM_DNS.";
    return { ...base, id: "dns", name: "DNS", state: "bad", detail, todo };
  }
  const todo = `Ask the provider of this machine to open port ${port} outwards, which many block until asked; or hand mail to a smarthost: mailroom settings set smtp.relay - takes smtps://USER:PASSWORD@HOST on standard input`;
  return { ...base, state: "bad", detail, todo };
}

async function checkRelay({ options, runtime, config }: World, setting: string): Promise<Finding> {
  const base = { id: "outbound", name: NAME } as const;
  const { host, port, tls, credentials } = readSmarthost(setting);
  const steps = [
    tls.mode === "opportunistic" ? undefined : tls.verify ? `TLS for the name ${host}` : "TLS",
    credentials && "sign-in",
  ].filter((step) => step !== undefined);
  const refusal = await trySmarthost({ options, runtime, hostname: config.hostname }, SILENT);
  if (refusal === undefined) {
    const more = steps.length > 0 ? `, with ${steps.join(" and ")}` : "";
    return { ...base, state: "ok", detail: `the smarthost ${host} takes mail on port ${port}${more}` };
  }
  return {
    ...base,
    state: "bad",
    detail: `the smarthost ${host} takes no mail on port ${port}: ${refusal}`,
    todo: "Mail to others waits meanwhile. See that the setting smtp.relay names the right host, port, user and password, that its certificate is for that name, and that a firewall lets it through.",
  };
}

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => SILENT };

/* Mailboxes that have nearly all that they may have. */

/** Mailboxes named in a finding, at most: people choose how many are full. */
const MOST_MAILBOXES = 5;
const NEARLY_FULL = 0.9;

const selectFull = statement<{ address: string; share: number }, [number, number]>(
  `SELECT address, share FROM (
     SELECT address, CAST(bytes AS REAL) / max(coalesce(quota_bytes, ?), 1) AS share
     FROM mailbox_usage JOIN mailboxes ON mailboxes.id = mailbox_usage.mailbox_id)
   WHERE share >= ? ORDER BY share DESC, address`,
);

export const checkQuotas: Check = ({ store, options }) => {
  const base = { id: "quotas", name: "Room in mailboxes" } as const;
  const preset = options.get("storage.mailboxBytes");
  const full = selectFull(store.db).all(preset, NEARLY_FULL);
  if (full.length === 0)
    return [{ ...base, state: "ok", detail: "no mailbox has less than a tenth of its quota left" }];
  const more = full.length > MOST_MAILBOXES ? ` and ${full.length - MOST_MAILBOXES} more` : "";
  const named = full.slice(0, MOST_MAILBOXES).map(({ address, share }) => `${address} (${Math.floor(share * 100)} %)`);
  return [
    {
      ...base,
      state: "warning",
      detail: `nearly all of the quota is used in ${named.join(", ")}${more}`,
      todo: `A full mailbox refuses mail. Have its people delete some and empty the trash, or give it more: mailroom mailbox quota ${full[0]?.address} BYTES`,
    },
  ];
};

/* The outbound queue: it should move, and mail should not wait long. */

interface Row {
  waiting: number;
  held: number;
  dueAt: number | null;
  acceptedAt: number | null;
}

/** A due attempt starts at once, except to slow servers; leases expire. */
const LATE_MS = 30 * 60_000;
const OLD_MS = 24 * 3_600_000;

const selectQueue = statement<Row, []>(
  `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'held') AS held,
     min(due_at) FILTER (WHERE state = 'waiting' AND leased = 0 AND queue_entries.domain NOT IN
       (SELECT domain FROM queue_domains WHERE line = 'slow')) AS dueAt, min(accepted_at) AS acceptedAt
   FROM queue_entries JOIN outbound_messages ON outbound_messages.seq = queue_entries.message_seq
   WHERE state = 'waiting' OR (state = 'held' AND due_at IS NULL)`,
);

export const checkQueue: Check = ({ store, runtime, serving }) => {
  const base = { id: "queue", name: "Outbound queue" } as const;
  const row = selectQueue(store.db).get();
  const { waiting = 0, held = 0, dueAt = null, acceptedAt = null } = row ?? {};
  const now = runtime.now();
  const hours = acceptedAt === null ? 0 : Math.floor((now - acceptedAt) / 3_600_000);
  const detail = `${waiting} recipients wait${held > 0 ? `, ${held} are held` : ""}${hours > 0 ? `, the oldest for ${hours} hours` : ""}`;
  const seen =
    "See why with mailroom queue list; mailroom queue retry ID attempts one again, mailroom queue cancel ID gives it up.";
  if (serving && dueAt !== null && now - dueAt > LATE_MS) {
    const todo = "The queue does not move: look into the server's log (journalctl -u mailroom), and restart it.";
    return [
      {
        ...base,
        state: "bad",
        detail: `an attempt is ${Math.floor((now - dueAt) / 60_000)} minutes late; ${detail}`,
        todo,
      },
    ];
  }
  const state = acceptedAt !== null && now - acceptedAt > OLD_MS ? "warning" : "ok";
  return [{ ...base, state, detail, ...(state === "warning" && { todo: seen }) }, ...refusedDestinations(store)];
};

/** Domains named in a finding, at most. */
const SOME = 5;

const selectRefused = statement<{ domain: string }, [string]>(
  "SELECT DISTINCT domain FROM queue_entries WHERE state = 'waiting' AND instr(reply, ?) > 0 ORDER BY domain",
);

/** Mail that waits because the mail servers of its domain are at private addresses. */
function refusedDestinations({ db }: World["store"]): Finding[] {
  const domains = selectRefused(db)
    .all(NOT_LISTED)
    .map(({ domain }) => domain);
  if (domains.length === 0) return [];
  const more = domains.length > SOME ? ` and ${domains.length - SOME} more` : "";
  return [
    {
      id: "private-destinations",
      name: "Mail to private addresses",
      state: "warning",
      detail: `mail for ${domains.slice(0, SOME).join(", ")}${more} waits, since it would go to addresses of a private network or of this machine`,
      todo: "If that network is yours, list it, for example: mailroom settings set smtp.allowNetworks 10.0.0.0/8. mailroom queue list names the server.",
    },
  ];
}

const selectMoving = statement<{ name: string; moving: "in" | "out" }, []>(
  "SELECT name, moving FROM workspaces WHERE moving IS NOT NULL ORDER BY name",
);

/** Workspaces that this server has and does not serve, since they move from or to another one. */
export const checkWorkspaces: Check = ({ store }) => {
  const moving = selectMoving(store.db).all();
  return moving.map(({ name, moving }) => ({
    id: `workspace:${name}`,
    name: `Workspace ${name}`,
    state: "warning",
    detail:
      moving === "out" ? "it has left this server, which takes and sends nothing for it" : "its import has not ended",
    todo:
      moving === "out"
        ? `Once the other server has it, and no mail for it comes here any more: mailroom workspace remove "${name}". If it is to stay: mailroom workspace reopen "${name}".`
        : `Import its final export, or give it up: mailroom workspace remove "${name}".`,
  }));
};

const selectFolder = statement("SELECT 1 FROM imap_folders LIMIT 1");

const countMissing = statement<{ waiting: number; lost: number }>(
  "SELECT count(*) FILTER (WHERE lost = 0) AS waiting, count(*) FILTER (WHERE lost = 1) AS lost FROM octets_waiting",
);

/** The octets of mail (mailbox/reading/missing-octets.ts); nothing where all are ready and no mailbox was opened over IMAP. */
export const checkMailApps: Check = ({ store }) => {
  const base = { id: "mail-apps", name: "Mail apps" } as const;
  const { waiting = 0, lost = 0 } = countMissing(store.db).get() ?? {};
  if (lost === 0 && !selectFolder(store.db).get()) return [];
  const details = [
    ...(lost > 0 ? [`${lost} messages cannot be read for mail apps`] : []),
    ...(waiting > 0 ? [`${waiting} messages are being made ready for them`] : []),
  ];
  const isBad = lost > 0;
  const todo =
    "Look for the messages in the server's log (journalctl -u mailroom); a file of an attachment may be missing or damaged (mailroom backup verify).";
  return [
    {
      ...base,
      state: isBad ? "bad" : "ok",
      detail: details.length > 0 ? details.join("; ") : "all mail is ready for them",
      ...(isBad && { todo }),
    },
  ];
};
