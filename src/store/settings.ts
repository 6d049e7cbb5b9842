/**
 * The settings in the database (rules: Settings). Each has a type, a default, a one-line description and a clear
 * refusal. The database stores the text of `format`, which `parse` always accepts.
 */
import { isIP } from "node:net";
import { isAbsolute } from "node:path";
import { domainToASCII } from "node:url";
import { eq } from "drizzle-orm";
import { bech32 } from "../base/encodings.ts";
import { ConfigError } from "../base/errors.ts";
import { readSize, SIZE_FORM } from "../base/sizes.ts";
import * as schema from "./schema.ts";
import type { Store, Tx } from "./store.ts";

interface Setting<T> {
  readonly default: T;
  readonly description: string;
  /** True for a setting that names a file or folder of this machine. */
  readonly isPath?: true;
  /** For a value that contains a secret. */
  readonly hidden?: Hidden;
  /** Parses text as given to `settings set`. @throws ConfigError that says which values are valid. */
  parse(text: string): T;
  format(value: T): string;
}

/** Hides the secret in a value, as text: it is never shown again. */
interface Hidden {
  /** Replaces the secret; text without one stays the same. */
  mask(text: string): string;
  /**
   * Restores the secret in a text that may have been masked, from the `present` value. @throws ConfigError if that is
   * impossible
   */
  unmask(text: string, present: string): string;
}

interface Bounds {
  /** The counted unit, for the refusal. */
  unit: string;
  min: number;
  max: number;
  integer?: boolean;
}

/** Decimal, possibly with an exponent, as String() of a number gives it. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

/** Longest sensible duration: times in ms stay far inside the range of a Date. */
const TEN_YEARS_OF_SECONDS = 315_576_000;
const TEN_YEARS_OF_HOURS = 87_660;
const TEN_YEARS_OF_DAYS = 3_652.5;

function parseNumber(text: string, { unit, min, max, integer = false }: Bounds): number {
  const value = Number(text);
  if (!NUMBER.test(text.trim()) || value < min || value > max || (integer && !Number.isInteger(value))) {
    throw new ConfigError(`give ${integer ? "a whole number" : "a number"} (${unit}), ${min} to ${max}`);
  }
  return value;
}

function number(bounds: Bounds, preset: number, description: string): Setting<number> {
  return { default: preset, description, parse: (text) => parseNumber(text, bounds), format: String };
}

/** A number of bytes, which may be given with a unit. */
function size({ min, max }: { min: number; max: number }, preset: number, description: string): Setting<number> {
  return {
    default: preset,
    description,
    parse(text) {
      const bytes = readSize(text);
      if (bytes !== undefined && bytes >= min && bytes <= max) return bytes;
      throw new ConfigError(`give ${SIZE_FORM}, ${min} to ${max} bytes`);
    },
    format: String,
  };
}

/** Numbers separated by commas, at least one. */
function numbers(bounds: Bounds, preset: readonly number[], description: string): Setting<readonly number[]> {
  return {
    default: preset,
    description,
    parse(text) {
      try {
        return text.split(",").map((entry) => parseNumber(entry, bounds));
      } catch (error) {
        throw error instanceof ConfigError ? new ConfigError(`${error.message}, or several with commas`) : error;
      }
    },
    format: (list) => list.join(),
  };
}

const unlessWord = (word: string, { mask, unmask }: Hidden): Hidden => ({
  mask: (text) => (text === word ? word : mask(text)),
  unmask: (text, present) => (text === word ? word : unmask(text, present)),
});

/** A setting that also accepts a word for "not at all"; `preset` is then the default. */
function orWord<T, const W extends string>(word: W, setting: Setting<T>, preset: T | W): Setting<T | W> {
  return {
    default: preset,
    description: setting.description,
    ...(setting.isPath && { isPath: true }),
    ...(setting.hidden && { hidden: unlessWord(word, setting.hidden) }),
    parse(text) {
      if (text === word) return word;
      try {
        return setting.parse(text);
      } catch (error) {
        throw error instanceof ConfigError ? new ConfigError(`${error.message}, or ${word}`) : error;
      }
    },
    format: (value) => (value === word ? word : setting.format(value as T)),
  };
}

function boolean(preset: boolean, description: string): Setting<boolean> {
  return {
    default: preset,
    description,
    parse(text) {
      if (text !== "true" && text !== "false") throw new ConfigError("give true or false");
      return text === "true";
    },
    format: String,
  };
}

/** Replaces a password. A password that is literally this must be percent-encoded. */
const MASK = "***";

const hiddenPassword: Hidden = {
  mask(text) {
    const url = URL.parse(text);
    if (!url?.password) return text;
    url.password = MASK;
    return url.href;
  },
  unmask(text, present) {
    const url = URL.parse(text);
    if (url?.password !== MASK) return text;
    const known = URL.parse(present);
    const isElsewhere = known?.username !== url.username || known.hostname !== url.hostname;
    if (!known?.password || isElsewhere || (known.protocol === "smtps:" && url.protocol !== "smtps:")) {
      throw new ConfigError(
        `give the password itself: ${MASK} only stands for that of the same user and host, with TLS if it had it`,
      );
    }
    url.password = known.password;
    return url.href;
  },
};

/** A smarthost: the URL as given, including its credentials. */
function relay(description: string): Setting<string> {
  return {
    default: "",
    description,
    hidden: hiddenPassword,
    parse(text) {
      const url = URL.parse(text);
      if (!url?.hostname || !/^smtps?:$/.test(url.protocol) || !/^\/?$/.test(url.pathname) || url.search || url.hash) {
        throw new ConfigError("give smtp://user:password@host:port or smtps://…");
      }
      return text;
    },
    format: String,
  };
}

function isCidr(text: string): boolean {
  const match = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(text);
  const family = isIP(match?.[1] ?? "");
  return family !== 0 && Number(match?.[2]) <= (family === 4 ? 32 : 128);
}

function networks(description: string): Setting<readonly string[]> {
  return {
    default: [],
    description,
    parse(text) {
      const list = text.split(",").map((entry) => entry.trim());
      if (!list.every(isCidr)) throw new ConfigError("give CIDRs, such as 10.0.0.0/8, separated by commas");
      return list;
    },
    format: (list) => list.join(),
  };
}

const DNS_NAME = /^(?=.{1,150}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)+$/;

/** DNS names as A-labels. `what` describes them, for example "DNS zones, such as zen.example". */
function dnsNames(description: string, what: string, most: number): Setting<readonly string[]> {
  return {
    default: [],
    description,
    parse(text) {
      const list = text.split(",").map((entry) => domainToASCII(entry.trim().replace(/\.$/, "")));
      if (list.length > most || !list.every((name) => DNS_NAME.test(name))) {
        throw new ConfigError(`give up to ${most} ${what}, separated by commas`);
      }
      return [...new Set(list)];
    },
    format: (list) => list.join(),
  };
}

/** Origins of web pages, as browsers send them in the header Origin. */
function origins(description: string): Setting<readonly string[]> {
  return {
    default: [],
    description,
    parse(text) {
      const list = text.split(",").map((entry) => parseOrigin(entry.trim()));
      if (list.length > 32 || !list.every((origin) => origin !== undefined)) {
        throw new ConfigError("give up to 32 origins, such as https://app.example.com, separated by commas");
      }
      return [...new Set(list)];
    },
    format: (list) => list.join(),
  };
}

/** The origin that a text names, and nothing beside it; undefined for any other text. */
function parseOrigin(text: string): string | undefined {
  const url = /^https?:\/\/[^/?#@*\\\s]+\/?$/i.test(text) ? URL.parse(text) : null;
  return url?.origin;
}

/** A path, which need not exist. */
function path(what: "a folder" | "an executable", description: string): Setting<string> {
  return {
    default: "",
    description,
    isPath: true,
    parse(text) {
      if (!isAbsolute(text) || text.includes("\0")) throw new ConfigError(`give the absolute path of ${what}`);
      return text;
    },
    format: String,
  };
}

/** Bech32, as age has it: the checksum finds a mistyped character. */
function isAgeRecipient(text: string): boolean {
  const decoded = bech32.decodeUnsafe(text);
  return decoded?.prefix === "age" && bech32.fromWordsUnsafe(decoded.words)?.length === 32;
}

/** Public keys of age, of the kind that age-keygen makes. */
function recipients(description: string): Setting<readonly string[]> {
  return {
    default: [],
    description,
    parse(text) {
      const list = text.split(",").map((entry) => entry.trim());
      if (list.length > 16 || !list.every(isAgeRecipient)) {
        throw new ConfigError(
          "give up to 16 public keys (age1…), as mailroom backup key prints them, separated by commas",
        );
      }
      return [...new Set(list)];
    },
    format: (list) => list.join(),
  };
}

/** A setting whose value is one of several words. */
function choice<const W extends string>(words: readonly W[], preset: W, description: string): Setting<W> {
  return {
    default: preset,
    description,
    parse(text) {
      const value = words.find((word) => word === text);
      if (value === undefined) throw new ConfigError(`give one of ${words.join(", ")}`);
      return value;
    },
    format: String,
  };
}

/** Origin of a server, or a path below it behind a proxy; its credentials are a setting of their own. */
function serverUrl(description: string): Setting<string> {
  return {
    default: "",
    description,
    // A refusal must not repeat the password in the URL.
    hidden: hiddenPassword,
    parse(text) {
      const url = URL.parse(text);
      if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
        throw new ConfigError("give http://host:port or https://…, without a password in it");
      }
      return url.href.replace(/\/+$/, "");
    },
    format: String,
  };
}

/** Replaces a secret that is set. */
const SET = "(set)";

/** A value that is never shown again. `min`: characters. */
function secret(description: string, min = 1): Setting<string> {
  return {
    default: "",
    description,
    hidden: {
      mask: () => SET,
      unmask(text) {
        if (text === SET) throw new ConfigError(`give the secret itself: ${SET} only says that there is one`);
        return text;
      },
    },
    parse(text) {
      if (!/^[\x21-\x7e]{1,512}$/.test(text) || text.length < min) {
        throw new ConfigError(`give ${min === 1 ? "up" : `${min}`} to 512 printable ASCII characters`);
      }
      return text;
    },
    format: String,
  };
}

const REQUESTS: Bounds = { unit: "requests", min: 1, max: 1_000_000_000, integer: true };
const RECIPIENTS: Bounds = { unit: "recipients", min: 0, max: 1_000_000_000, integer: true };
const SECONDS: Bounds = { unit: "seconds", min: 0, max: TEN_YEARS_OF_SECONDS };
const HOURS: Bounds = { unit: "hours", min: 0, max: TEN_YEARS_OF_HOURS };
const SCORE: Bounds = { unit: "score", min: 0.5, max: 1 };
const DAYS: Bounds = { unit: "days", min: 0, max: TEN_YEARS_OF_DAYS };

const COUNT: Bounds = { unit: "a minute", min: 1, max: 1_000_000_000, integer: true };

const LOOPBACK = ["127.0.0.0/8", "::1/128"];

const WARMUP = [50, 100, 200, 400, 800, 1600, 3200];

export const SETTINGS = {
  "api.keyRequestsPerMinute": number(REQUESTS, 120, "Requests a minute for one API key"),
  "api.ipRequestsPerMinute": number(
    REQUESTS,
    60,
    "Requests a minute from one source address, checked before the key is read",
  ),
  "api.cooldownSeconds": number(SECONDS, 60, "How long 429 is answered after either rate is exceeded"),
  "api.allowOrigins": orWord(
    "none",
    origins("Origins of web pages that may call the API and MCP with a key, from their visitors' browsers"),
    "none",
  ),
  "oauth.grants": choice(
    ["admins", "everyone"],
    "admins",
    "Who may let programs in over OAuth: owners and admins, or everyone with an account",
  ),
  "sending.mailboxPerHour": number(RECIPIENTS, 100, "Recipients a mailbox may send to within 60 minutes"),
  "sending.workspacePerHour": number(RECIPIENTS, 500, "Recipients a workspace may send to within 60 minutes"),
  "sending.warmup": orWord(
    "off",
    numbers(RECIPIENTS, WARMUP, "Outside recipients a new domain may reach on day 1, 2, … from its verification"),
    WARMUP,
  ),
  "sending.maxRecipients": number(
    // A header with long names holds no more of them.
    { ...RECIPIENTS, min: 1, max: 2_000 },
    100,
    "Recipients of one message, Cc and Bcc included",
  ),
  "smtp.relay": orWord(
    "none",
    relay("Smarthost that takes all outbound mail; none sends directly to MX hosts"),
    "none",
  ),
  "smtp.outboundPort": number({ unit: "port", min: 1, max: 65_535, integer: true }, 25, "Port on remote MX hosts"),
  "smtp.allowNetworks": orWord(
    "none",
    networks("Private networks to which mail is delivered all the same, where the MX of a domain leads there"),
    "none",
  ),
  "smtp.trustedResolvers": orWord(
    "none",
    networks("Networks of resolvers that are believed to have checked DNSSEC, which DANE needs; none: no DANE"),
    LOOPBACK,
  ),
  "smtp.maxMessageBytes": size({ min: 1024, max: 1_073_741_824 }, 26_214_400, "Largest message taken, offered as SIZE"),
  "smtp.retrySeconds": numbers(
    SECONDS,
    [60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 57_600],
    "Waits between delivery attempts after a temporary failure; after the last, the recipient bounces",
  ),
  "mtaSts.mode": choice(
    ["none", "testing", "enforce"],
    "testing",
    "MTA-STS policy published for the domains; enforce only while this server is their only MX",
  ),
  "mx.trustedNetworks": orWord(
    "none",
    networks("Networks whose mail meets no limit, list or wait of the mx settings: this host, another MX of yours"),
    LOOPBACK,
  ),
  "mx.connectionsPerMinute": number(
    COUNT,
    300,
    "Connections one source may open a minute; its network four times that",
  ),
  "mx.messagesPerMinute": number(
    COUNT,
    300,
    "Messages one source may send a minute; 20 times that an hour, its network four times either",
  ),
  "mx.recipientsPerMinute": number(
    COUNT,
    1_500,
    "Recipients one source may name a minute; 20 times that an hour, its network four times either",
  ),
  "mx.dnsbl": orWord(
    "none",
    dnsNames(
      "DNS blocklists asked about every client; one that is listed is refused",
      "DNS zones, such as zen.spamhaus.org",
      8,
    ),
    "none",
  ),
  "mx.greylistSeconds": orWord(
    "off",
    number({ unit: "seconds", min: 0.1, max: 3_600 }, 300, "How long a new sender waits before a retry is taken"),
    "off",
  ),
  "webhooks.retrySeconds": numbers(
    SECONDS,
    [60, 300, 1800, 7200, 21_600, 43_200],
    "Waits between the attempts of a webhook delivery",
  ),
  "webhooks.timeoutSeconds": number(
    { unit: "seconds", min: 0.01, max: 600 },
    10,
    "How long a webhook receiver may take to answer",
  ),
  "webhooks.allowNetworks": orWord("none", networks("Private networks that webhooks may reach all the same"), "none"),
  "webhooks.disableAfter": number(
    { unit: "deliveries", min: 1, max: 1_000_000, integer: true },
    15,
    "Exhausted deliveries in a row that switch a webhook endpoint off",
  ),
  "storage.mailboxBytes": size(
    { min: 0, max: Number.MAX_SAFE_INTEGER },
    5_368_709_120,
    "Quota of a mailbox without one of its own",
  ),
  "spam.rejectDmarc": boolean(
    true,
    "Refuse mail that fails a published DMARC policy of reject; false files it to spam instead",
  ),
  "spam.junkThreshold": orWord(
    "off",
    number(SCORE, 0.9999, "Score from which a mailbox's trained junk filter files mail to spam"),
    0.9999,
  ),
  "spam.trustedForwarders": orWord(
    "none",
    dnsNames(
      "Forwarders, mailing lists among them, whose ARC seal excuses a failed DMARC check",
      "domains, such as lists.example.org",
      100,
    ),
    "none",
  ),
  "rules.forwardOutside": boolean(
    false,
    "Rules of mailboxes may forward mail to addresses outside the verified domains of their workspace",
  ),
  "holds.days": number(DAYS, 7, "Days after which a message that waits for approval is rejected"),
  "retention.deliveryLogDays": number(DAYS, 30, "Days that finished webhook deliveries are kept"),
  "retention.idempotencyHours": number(HOURS, 24, "Hours that an idempotency key is remembered"),
  "retention.journalDays": number(
    { ...DAYS, min: 1 },
    90,
    "Days that the journal of API keys, and with it undo, reaches back",
  ),
  "retention.journalReadDays": number(DAYS, 14, "Days that the journal tells what API keys read"),
  "retention.traceDays": number(DAYS, 30, "Days that the steps of each message on its way are kept (mailroom trace)"),
  "retention.trashDays": orWord("off", number(DAYS, 30, "Days after which trash and spam are deleted for good"), "off"),
  "blobs.cacheBytes": size(
    { min: 1_000_000, max: Number.MAX_SAFE_INTEGER },
    2_000_000_000,
    "Room in the data folder for copies of attachments that are in S3 (MAILROOM_BLOBS)",
  ),
  "backup.folder": orWord(
    "off",
    path("a folder", "Folder that the server is backed up into by itself, best on another disk"),
    "off",
  ),
  "backup.everyHours": number({ ...HOURS, min: 0.0001 }, 24, "Hours from one backup to the next"),
  "backup.keep": number({ unit: "backups", min: 1, max: 100_000, integer: true }, 7, "Backups kept in backup.folder"),
  "backup.recipients": orWord(
    "none",
    recipients("Public keys for which backups are encrypted; whoever restores needs one of their private keys"),
    "none",
  ),
  "metrics.allowNetworks": orWord("none", networks("Networks that may read /metrics, beside this machine"), "none"),
  "metrics.token": orWord(
    "none",
    secret("Token with which /metrics may be read from anywhere, as Authorization: Bearer", 20),
    "none",
  ),
  "replica.ack": choice(
    ["local", "replica"],
    "local",
    "When mail counts as taken: once it is on the disk (local), or once the replica has it, too",
  ),
  "replica.onLost": choice(
    ["stop", "serve"],
    "stop",
    "After some seconds without a sight of the replica: stop, or serve, though another may take over",
  ),
  "replica.litestreamPath": orWord(
    "auto",
    path(
      "an executable",
      "Executable of Litestream; auto: bin/litestream in the data folder, beside the server, or in PATH",
    ),
    "auto",
  ),
  "search.engine": choice(
    ["fts5", "meilisearch"],
    "fts5",
    "Search engine: fts5 is embedded; meilisearch, a server beside it, forgives typos as well",
  ),
  "search.meilisearchPath": orWord(
    "auto",
    path(
      "an executable",
      "Executable of Meilisearch; auto: bin/meilisearch in the data folder, beside the server, or in PATH",
    ),
    "auto",
  ),
  "search.meilisearchUrl": orWord("none", serverUrl("Meilisearch server to use; none: one of our own is run"), "none"),
  "search.meilisearchKey": orWord("none", secret("Key for search.meilisearchUrl"), "none"),
} as const;

export type SettingName = keyof typeof SETTINGS;
export type SettingValue<N extends SettingName> = ReturnType<(typeof SETTINGS)[N]["parse"]>;

export interface SettingRow {
  id: string;
  name: string;
  value: string;
  default: string;
  description: string;
}

export type Options = ReturnType<typeof openOptions>;

/** Checks that the name is a setting's. @throws ConfigError for an unknown name */
function knownSetting(name: string): SettingName {
  if (!Object.hasOwn(SETTINGS, name)) {
    throw new ConfigError(`there is no setting "${name}"; see: mailroom settings list`);
  }
  return name as SettingName;
}

/** A setting whose name is only known at run time. */
const getSetting = (name: SettingName): Setting<unknown> => SETTINGS[name] as Setting<unknown>;

export function openOptions(store: Store) {
  let values = new Map<string, unknown>();
  let changed = false;
  const listeners: (() => void)[] = [];

  /** Reads the settings again, because another process may have changed them. */
  function refresh(): void {
    const read = new Map<string, unknown>();
    for (const { name, value } of store.db.select().from(schema.options).all()) {
      if (!Object.hasOwn(SETTINGS, name)) continue;
      try {
        read.set(name, getSetting(name as SettingName).parse(value));
      } catch {
        // Another version stored a value that is now invalid: the default applies, so that the appliance starts and the
        // setting can be reset.
      }
    }
    values = read;
    changed = false;
    for (const listener of listeners) listener();
  }
  refresh();
  // Not at `set`: a transaction that is rolled back must not change memory.
  store.onCommit(() => {
    if (changed) refresh();
  });

  /** The current value, from memory. */
  const get = <N extends SettingName>(name: N): SettingValue<N> =>
    (values.get(name) ?? SETTINGS[name].default) as SettingValue<N>;

  const formatSetting = (name: SettingName): string => getSetting(name).format(get(name));

  const toSettingRow = (name: SettingName): SettingRow => ({
    id: name,
    name,
    value: getSetting(name).hidden?.mask(formatSetting(name)) ?? formatSetting(name),
    default: getSetting(name).format(SETTINGS[name].default),
    description: SETTINGS[name].description,
  });

  return {
    get,
    list: (): SettingRow[] => (Object.keys(SETTINGS) as SettingName[]).map(toSettingRow),
    /** The setting of that name, as listed. @throws ConfigError for an unknown name */
    find: (name: string): SettingRow => toSettingRow(knownSetting(name)),
    /** True if it names a file or folder of this machine. @throws ConfigError for an unknown name */
    isPath: (name: string): boolean => getSetting(knownSetting(name)).isPath === true,
    /** True if that value contains a secret. @throws ConfigError for an unknown name */
    hides: (name: string, text: string): boolean => {
      const { hidden } = getSetting(knownSetting(name));
      return hidden !== undefined && hidden.mask(text) !== text;
    },
    /**
     * Takes effect with the commit. A value as listed keeps its hidden secret.
     * @throws ConfigError for an unknown name or an invalid value, with the valid ones
     */
    set(tx: Tx, name: string, text: string): void {
      const known = knownSetting(name);
      const setting = getSetting(known);
      let value: string;
      try {
        value = setting.format(setting.parse(setting.hidden?.unmask(text, formatSetting(known)) ?? text));
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        const given = setting.hidden ? "that" : `"${text}"`;
        throw new ConfigError(`${name} cannot be ${given}: ${error.message}`);
      }
      tx.insert(schema.options)
        .values({ name, value })
        .onConflictDoUpdate({ target: schema.options.name, set: { value } })
        .run();
      changed = true;
    },
    reset(tx: Tx, name: string): void {
      tx.delete(schema.options)
        .where(eq(schema.options.name, knownSetting(name)))
        .run();
      changed = true;
    },
    refresh,
    /** `listener` is called after each reading, whether or not anything changed. */
    onRefresh: (listener: () => void): void => void listeners.push(listener),
  };
}
