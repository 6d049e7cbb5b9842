/**
 * The settings kept in the database (contract: Processes and settings). Each has a type, a default, a one-line
 * description and a clear refusal. A setting appears here with the feature that obeys it.
 */
import { eq } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import * as schema from "./schema.ts";
import type { Store, Tx } from "./store.ts";

interface Setting<T> {
  readonly default: T;
  readonly description: string;
  /** Text as given to `settings set`. @throws ConfigError */
  parse(text: string): T;
  format(value: T): string;
}

function number(bounds: { min: number; integer?: boolean; unit: string }, preset: number, description: string) {
  return {
    default: preset,
    description,
    parse(text: string): number {
      const value = Number(text);
      const whole = bounds.integer ? "a whole number" : "a number";
      if (text.trim() === "" || !Number.isFinite(value) || (bounds.integer && !Number.isSafeInteger(value))) {
        throw new ConfigError(`give ${whole} of ${bounds.unit}`);
      }
      if (value < bounds.min) throw new ConfigError(`give ${whole} of ${bounds.unit}, ${bounds.min} or more`);
      return value;
    },
    format: String,
  } satisfies Setting<number>;
}

function boolean(preset: boolean, description: string) {
  return {
    default: preset,
    description,
    parse(text: string): boolean {
      if (text !== "true" && text !== "false") throw new ConfigError("give true or false");
      return text === "true";
    },
    format: String,
  } satisfies Setting<boolean>;
}

function choice<const T extends string>(values: readonly T[], preset: NoInfer<T>, description: string) {
  return {
    default: preset as T,
    description,
    parse(text: string): T {
      const value = values.find((known) => known === text);
      if (value === undefined) throw new ConfigError(`give one of: ${values.join(", ")}`);
      return value;
    },
    format: (value: T): string => value,
  } satisfies Setting<T>;
}

export const SETTINGS = {
  "api.keyRequestsPerMinute": number(
    { min: 1, integer: true, unit: "requests" },
    120,
    "Requests a minute for one API key",
  ),
  "api.ipRequestsPerMinute": number(
    { min: 1, integer: true, unit: "requests" },
    60,
    "Requests a minute from one source address, checked before the key is read",
  ),
  "api.cooldownSeconds": number(
    { min: 0, unit: "seconds" },
    60,
    "How long 429 is answered after either rate is exceeded",
  ),
  "smtp.maxMessageBytes": number(
    { min: 1024, integer: true, unit: "bytes" },
    26_214_400,
    "Largest message taken, offered as SIZE",
  ),
  "storage.mailboxBytes": number(
    { min: 0, integer: true, unit: "bytes" },
    5_368_709_120,
    "Quota of a mailbox without one of its own",
  ),
  "search.engine": choice(["fts5"], "fts5", "Search engine: fts5 is embedded; meilisearch is not built yet"),
} as const;

export type SettingName = keyof typeof SETTINGS;
export type SettingValue<N extends SettingName> = (typeof SETTINGS)[N]["default"] extends boolean
  ? boolean
  : (typeof SETTINGS)[N]["default"] extends number
    ? number
    : (typeof SETTINGS)[N]["default"];

export interface SettingRow {
  id: string;
  name: string;
  value: string;
  default: string;
  description: string;
}

export interface Options {
  /** The value in force; from memory. */
  get<N extends SettingName>(name: N): SettingValue<N>;
  list(): SettingRow[];
  /** @throws ConfigError for an unknown name or a bad value, saying what it takes. */
  set(tx: Tx, name: string, text: string): void;
  reset(tx: Tx, name: string): void;
  /** Reads them again: another process may have changed them. */
  refresh(): void;
}

/** The setting of that name. @throws ConfigError when there is none. */
export function knownSetting(name: string): SettingName {
  if (!Object.hasOwn(SETTINGS, name)) {
    throw new ConfigError(`there is no setting "${name}"; see: mailroom settings list`);
  }
  return name as SettingName;
}

export function openOptions(store: Store): Options {
  let values = new Map<string, unknown>();

  function refresh(): void {
    values = new Map();
    for (const row of store.db.select().from(schema.options).all()) {
      if (Object.hasOwn(SETTINGS, row.name)) values.set(row.name, SETTINGS[row.name as SettingName].parse(row.value));
    }
  }
  refresh();

  const get = <N extends SettingName>(name: N): SettingValue<N> =>
    (values.get(name) ?? SETTINGS[name].default) as SettingValue<N>;

  return {
    get,
    list: () =>
      (Object.keys(SETTINGS) as SettingName[]).map((name) => ({
        id: name,
        name,
        value: String(get(name)),
        default: String(SETTINGS[name].default),
        description: SETTINGS[name].description,
      })),
    set(tx, name, text) {
      const setting = SETTINGS[knownSetting(name)];
      let value: string;
      try {
        value = (setting.format as (value: unknown) => string)(setting.parse(text));
      } catch (error) {
        throw error instanceof ConfigError ? new ConfigError(`${name} cannot be "${text}": ${error.message}`) : error;
      }
      tx.insert(schema.options)
        .values({ name, value })
        .onConflictDoUpdate({ target: schema.options.name, set: { value } })
        .run();
      refresh();
    },
    reset(tx, name) {
      tx.delete(schema.options)
        .where(eq(schema.options.name, knownSetting(name)))
        .run();
      refresh();
    },
    refresh,
  };
}
