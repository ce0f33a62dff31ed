/**
 * Merges settings from their sources. Later layers override earlier ones: defaults,
 * configuration file, environment, command line. Each value keeps its source, so that a problem can
 * name it.
 */
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { DEFAULT_SETTINGS, type EngineSettings } from "../../runtime/system/settings.ts";

export interface GivenValue {
  readonly value: unknown;
  /** For messages: "in sluice.config.ts", "in SLUICE_LEASE_MS", "after --store". */
  readonly place: string;
}

export interface Layer {
  readonly values: ReadonlyMap<string, GivenValue>;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** For open batches, which only programs open: neither the file nor a variable sets them. */
const PROGRAM_SETTINGS: readonly string[] = ["sealWithinMs", "addAheadItems"];
/** Settings of the engine that a command uses. */
export const ENGINE_SETTINGS = (
  Object.keys(DEFAULT_SETTINGS) as readonly (keyof EngineSettings)[]
).filter((name) => !PROGRAM_SETTINGS.includes(name));
/** Settings for watching a worker process. */
export const HEALTH_SETTINGS: readonly string[] = [
  "healthPort",
  "healthHost",
  "heartbeatTimeout",
  "taskTimeoutBuffer",
];
const SETTINGS: readonly string[] = [
  "store",
  "synchronous",
  "busyMs",
  "ledgerKey",
  ...ENGINE_SETTINGS,
  ...HEALTH_SETTINGS,
];
/** Settings that only a file can set. */
const FILE_SETTINGS: readonly string[] = [...SETTINGS, "notify", "consume", "redact"];
const TEXT_SETTINGS: ReadonlySet<string> = new Set([
  "store",
  "synchronous",
  "healthHost",
  "ledgerKey",
]);

const PREFIX = "SLUICE_";
/** Variables that a command sink sets for its command, which may itself call `sluice`. */
const VARIABLES_OF_SINKS = [
  "SLUICE_EVENT",
  "SLUICE_BATCH",
  "SLUICE_EVENT_ID",
  "SLUICE_TOPIC",
  "SLUICE_MESSAGE_ID",
];
/** Every variable that the command reads. A supervisor numbers its processes with SLUICE_PROCESS. */
export const VARIABLES: readonly string[] = [
  ...SETTINGS.map(nameVariable),
  "SLUICE_PROCESS",
  "SLUICE_LOG",
  "SLUICE_DEBUG",
];

export function mergeLayers(layers: readonly Layer[]): Layer {
  return {
    values: new Map(layers.flatMap(({ values }) => [...values])),
    problems: layers.flatMap(({ problems }) => problems),
    warnings: layers.flatMap(({ warnings }) => warnings),
  };
}

/** The export of a configuration file. */
export function readExportLayer(exported: object, file: string): Layer {
  const values = new Map<string, GivenValue>();
  const problems: string[] = [];
  for (const [name, value] of Object.entries(exported)) {
    if (value === undefined) continue;
    if (FILE_SETTINGS.includes(name)) {
      values.set(name, { value, place: `in ${file}` });
    } else {
      const meant = formatDidYouMean(findSimilar(name, FILE_SETTINGS));
      problems.push(`${name} in ${file} is not a setting. ${meant || listSettings()}`);
    }
  }
  return { values, problems, warnings: [] };
}

/** Variables whose name begins with SLUICE_. A close misspelling is a problem, others a warning. */
export function readEnvironmentLayer(env: NodeJS.ProcessEnv): Layer {
  const values = new Map<string, GivenValue>();
  const problems: string[] = [];
  const warnings: string[] = [];
  const variables = new Map(SETTINGS.map((setting) => [nameVariable(setting), setting]));
  const known = [...VARIABLES, ...VARIABLES_OF_SINKS];
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || text === undefined || text === "") continue;
    const setting = variables.get(variable);
    if (setting !== undefined) {
      values.set(setting, { value: readText(setting, text), place: `in ${variable}` });
    } else if (!known.includes(variable)) {
      const similar = findSimilarVariables(variable, known);
      if (similar.length === 0) warnings.push(`${variable} is not a setting and is ignored`);
      else problems.push(`${variable} is not a setting. ${formatDidYouMean(similar)}`);
    }
  }
  return { values, problems, warnings };
}

/** Without the common prefix, which would make any two names similar. */
function findSimilarVariables(variable: string, known: readonly string[]): string[] {
  const bare = known.map((name) => name.slice(PREFIX.length));
  return findSimilar(variable.slice(PREFIX.length), bare).map((name) => PREFIX + name);
}

/** SLUICE_LEASE_MS for leaseMs. */
export function nameVariable(setting: string): string {
  return PREFIX + setting.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** Converts a number; any other text stays a text, and the check of the setting refuses it. */
function readText(setting: string, text: string): string | number {
  return !TEXT_SETTINGS.has(setting) && /^-?\d+$/.test(text) ? Number(text) : text;
}

function listSettings(): string {
  return `The settings are ${FILE_SETTINGS.join(", ")}.`;
}
