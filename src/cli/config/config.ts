/** The command's configuration, merged from all layers; reports all problems at once. */
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import {
  type SynchronousMode,
  SYNCHRONOUS_MODES,
} from "../../adapters/sqlite/connection/synchronous.ts";
import { isAddress, readAddress } from "../../adapters/postgres/connection/address.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { SECRET_CHARS_MIN } from "../../core/base/redact.ts";
import { nameStore } from "../../stores/open-store.ts";
import { type EngineSettings, findSettingProblems } from "../../runtime/system/settings.ts";
import { importDefault } from "./import-module.ts";
import type { CommonFlags } from "./common-flags.ts";
import { checkHealth, type HealthConfig, readHealth } from "./health-config.ts";
import { checkConsume, type Consumed, readConsume } from "./consume-config.ts";
import { listAddressSecrets, listEnvironmentSecrets } from "./known-secrets.ts";
import { checkNotify, type Notify, readNotify } from "./notify-config.ts";
import {
  ENGINE_SETTINGS,
  type GivenValue,
  type Layer,
  mergeLayers,
  nameVariable,
  readEnvironmentLayer,
  readExportLayer,
} from "./settings-layers.ts";

export interface Config {
  /** The address of a server, or a path: absolute, so that changing the directory changes nothing. */
  readonly store: string;
  readonly synchronous: SynchronousMode;
  readonly busyMs: number;
  /** The file of the key that signs ledgers; null if nothing is signed. */
  readonly ledgerKey: string | null;
  /** True: the user named it. False: it is only the default path. */
  readonly isLedgerKeyNamed: boolean;
  readonly engine: Partial<EngineSettings>;
  /** How a worker process is watched. */
  readonly health: HealthConfig;
  /** Sinks for events. */
  readonly notify: Notify;
  /** Sinks for messages of topics. */
  readonly consume: readonly Consumed[];
  /**
   * Secrets that must not be printed or stored: from the environment, the store's address,
   * `redact`.
   */
  readonly secrets: readonly string[];
  readonly warnings: readonly string[];
  /** What another command needs to find the same store: nothing, or ` --store path`. */
  readonly storeFlag: readonly string[];
}

/** The options that are settings. */
type ConfigFlags = CommonFlags & { readonly healthPort?: string };

/** A number option of one command. */
export interface NumberFlag {
  readonly name: string;
  readonly given: string | undefined;
  readonly max: number;
}

const DEFAULT_STORE = ".sluice/sluice.db";
const DEFAULT_LEDGER_KEY = "ledger.key";
const OFF = "off";
const DEFAULT_BUSY_MS = 10_000;
const BUSY_MS_MAX = 86_400_000;
const FILE_NAMES = [
  "sluice.config.ts",
  "sluice.config.mts",
  "sluice.config.js",
  "sluice.config.mjs",
];

export async function loadConfig(
  flags: ConfigFlags,
  env: NodeJS.ProcessEnv,
  numbers: readonly NumberFlag[] = [],
): Promise<Config> {
  const layers = [await readFileLayer(flags.config), readEnvironmentLayer(env), readFlags(flags)];
  const { values, problems, warnings } = mergeLayers(layers);
  const found = [
    ...problems,
    ...checkStoreSettings(values),
    ...checkEngineSettings(values),
    ...checkHealth(values),
    ...checkNotify(values.get("notify")),
    ...checkConsume(values.get("consume")),
    ...checkRedact(values.get("redact")),
    ...numbers.flatMap(checkNumber),
  ];
  if (found.length > 0) {
    const count = found.length === 1 ? "a problem" : `${found.length} problems`;
    throw new SluiceError(
      "BAD_CONFIG",
      `the configuration has ${count}:\n${found.map((problem) => `  - ${problem}`).join("\n")}`,
      { hint: "Precedence: flags, then environment, then config file." },
    );
  }
  return assemble(values, warnings, env);
}

function assemble(
  values: ReadonlyMap<string, GivenValue>,
  warnings: readonly string[],
  env: NodeJS.ProcessEnv,
): Config {
  const read = (name: string): unknown => values.get(name)?.value;
  const given = (read("store") as string | undefined) ?? DEFAULT_STORE;
  const fromFlag = values.get("store")?.place === FLAG_PLACE;
  return {
    store: isAddress(given) ? given : resolve(given),
    synchronous: (read("synchronous") as SynchronousMode | undefined) ?? "full",
    busyMs: (read("busyMs") as number | undefined) ?? DEFAULT_BUSY_MS,
    ledgerKey: readLedgerKey(given, read("ledgerKey") as string | undefined),
    isLedgerKeyNamed: read("ledgerKey") !== undefined,
    engine: readEngineSettings(values),
    health: readHealth(values),
    notify: readNotify(values.get("notify")),
    consume: readConsume(values.get("consume")),
    secrets: [
      ...listEnvironmentSecrets(env),
      ...listAddressSecrets(given),
      ...((read("redact") as readonly string[] | undefined) ?? []),
    ],
    warnings,
    storeFlag: fromFlag ? ["--store", nameStore(given)] : [],
  };
}

/** Next to a store that is a file; a server is used by many hosts, which must share one key. */
function readLedgerKey(store: string, given: string | undefined): string | null {
  if (given === OFF) return null;
  if (given !== undefined) return resolve(given);
  return isAddress(store) ? null : join(dirname(resolve(store)), DEFAULT_LEDGER_KEY);
}

/** Reads a number option that `loadConfig` has checked. */
export function readNumber(given: string | undefined): number | undefined {
  return given === undefined ? undefined : Number(given);
}

async function readFileLayer(given: string | undefined): Promise<Layer> {
  const file = given ?? findConfigFile();
  if (file === null) return { values: new Map(), problems: [], warnings: [] };
  const name = relative(".", file) || file;
  const exported = await importDefault(file, "configuration");
  if (typeof exported !== "object" || exported === null || Array.isArray(exported)) {
    const problem = `${name} must export an object by default, for example: export default { store: "jobs.db" }`;
    return { values: new Map(), problems: [problem], warnings: [] };
  }
  const layer = readExportLayer(exported, name);
  const values = new Map(layer.values);
  for (const setting of ["store", "ledgerKey"]) {
    const one = values.get(setting);
    if (typeof one?.value !== "string" || one.value === "" || one.value === OFF) continue;
    if (isAddress(one.value)) continue;
    // A path in a file is relative to that file, wherever the command is called from.
    values.set(setting, { ...one, value: resolve(dirname(resolve(file)), one.value) });
  }
  return { ...layer, values };
}

function findConfigFile(): string | null {
  const found = FILE_NAMES.filter((name) => existsSync(name));
  if (found.length > 1) {
    throw new SluiceError(
      "BAD_CONFIG",
      `there is more than one configuration: ${found.join(", ")}`,
      {
        hint: "Remove all but one, or choose one with --config.",
      },
    );
  }
  return found[0] ?? null;
}

const FLAG_PLACE = "after --store";

function readFlags({ store, healthPort }: ConfigFlags): Layer {
  const values = new Map<string, GivenValue>();
  if (store !== undefined) values.set("store", { value: store, place: FLAG_PLACE });
  if (healthPort !== undefined) {
    const value = /^\d+$/.test(healthPort) ? Number(healthPort) : healthPort;
    values.set("healthPort", { value, place: "after --health-port" });
  }
  return { values, problems: [], warnings: [] };
}

function checkStoreSettings(values: ReadonlyMap<string, GivenValue>): string[] {
  const problems: string[] = [];
  const check = (name: string, fits: (value: unknown) => boolean, rule: string): void => {
    const given = values.get(name);
    if (given !== undefined && !fits(given.value)) problems.push(describe(name, rule, given));
  };
  const store = values.get("store");
  check(
    "store",
    (value) => typeof value === "string" && value !== "",
    "must be a path or an address",
  );
  if (typeof store?.value === "string" && isAddress(store.value)) {
    problems.push(...checkAddress(store.value));
  }
  check(
    "ledgerKey",
    (value) => typeof value === "string" && value !== "",
    `must be the path of a key file, or ${OFF}`,
  );
  check(
    "synchronous",
    (value) => SYNCHRONOUS_MODES.includes(value as SynchronousMode),
    `must be ${SYNCHRONOUS_MODES.join(" or ")}`,
  );
  check(
    "busyMs",
    (value) =>
      Number.isInteger(value) && (value as number) >= 0 && (value as number) <= BUSY_MS_MAX,
    `must be a whole number from 0 to ${BUSY_MS_MAX}`,
  );
  return problems;
}

/** Without the address itself, which may hold a password. */
function checkAddress(address: string): string[] {
  try {
    readAddress(address);
    return [];
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return [`${error.message}. ${error.hint ?? ""}`];
  }
}

function checkEngineSettings(values: ReadonlyMap<string, GivenValue>): string[] {
  return findSettingProblems(readEngineSettings(values)).map(({ settings, problem }) => {
    const places = settings.map((name) => {
      const given = values.get(name);
      return given === undefined
        ? `${name} has its default (${nameVariable(name)} sets it)`
        : `${settings.length === 1 ? "it" : name} is ${show(given.value)} ${given.place}`;
    });
    return `${problem}; ${places.join(", ")}`;
  });
}

function readEngineSettings(values: ReadonlyMap<string, GivenValue>): Partial<EngineSettings> {
  const given = ENGINE_SETTINGS.flatMap((name) => {
    const one = values.get(name);
    return one === undefined ? [] : [[name, one.value] as const];
  });
  return Object.fromEntries(given);
}

/** Without the values themselves. */
function checkRedact(given: GivenValue | undefined): string[] {
  if (given === undefined) return [];
  const { value, place } = given;
  const isGood = Array.isArray(value) && value.every((one) => typeof one === "string");
  if (!isGood) return [`redact ${place} must be a list of texts that must not be shown`];
  const short = value.filter((one: string) => one.length < SECRET_CHARS_MIN).length;
  return short === 0
    ? []
    : [
        `redact ${place} has texts shorter than ${SECRET_CHARS_MIN} characters, which may be part of ordinary words`,
      ];
}

function checkNumber({ name, given, max }: NumberFlag): string[] {
  if (given === undefined) return [];
  const fits = /^\d+$/.test(given) && Number(given) >= 1 && Number(given) <= max;
  const rule = `must be a whole number from 1 to ${max}`;
  return fits ? [] : [describe(name, rule, { value: given, place: "on the command line" })];
}

function describe(name: string, rule: string, { value, place }: GivenValue): string {
  return `${name} ${rule}; it is ${show(value)} ${place}`;
}

function show(value: unknown): string {
  return typeof value === "object" ? "an object" : (JSON.stringify(value) ?? typeof value);
}
