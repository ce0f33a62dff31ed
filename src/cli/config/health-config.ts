/**
 * The settings for watching a worker process: checks all of them, and names the place of each
 * problem.
 */
import { DEFAULT_HEALTH_LIMITS, type HealthLimits } from "../../core/fleet/health.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { parseDuration } from "./parse-duration.ts";
import type { GivenValue } from "./settings-layers.ts";

export interface HealthConfig {
  /** Null: no health pages. */
  readonly port: number | null;
  /** True if the user chose the port: then it must be free. */
  readonly isPortChosen: boolean;
  readonly host: string;
  readonly limits: HealthLimits;
}

type Values = ReadonlyMap<string, GivenValue>;

export const DEFAULT_HEALTH_PORT = 8_085;
const DEFAULT_HEALTH_HOST = "127.0.0.1";
const OFF = "off";
const PORT_MAX = 65_535;
const HEARTBEAT_MS_MIN = 500;
const DAY_MS = 86_400_000;
const BUFFER_MAX = 100;

interface Rule {
  readonly fits: (value: unknown) => boolean;
  readonly words: string;
}

const RULES: Readonly<Record<string, Rule>> = {
  healthPort: {
    fits: (value) => value === OFF || isWithin(value, 0, PORT_MAX),
    words: `must be a port from 0 to ${PORT_MAX} (0: any free port), or ${OFF}`,
  },
  healthHost: {
    fits: (value) => typeof value === "string" && value !== "",
    words: "must be the address of an interface, for example 127.0.0.1 or 0.0.0.0",
  },
  heartbeatTimeout: {
    fits: (value) => isWithin(readDurationMs(value), HEARTBEAT_MS_MIN, DAY_MS),
    words: 'must be a duration from 500ms to 1d, for example "120s"; a bare number is seconds',
  },
  taskTimeoutBuffer: {
    fits: (value) => readNumber(value) >= 1 && readNumber(value) <= BUFFER_MAX,
    words: `must be a number from 1 to ${BUFFER_MAX}, for example 1.5`,
  },
};

export function checkHealth(values: Values): string[] {
  return Object.entries(RULES).flatMap(([name, { fits, words }]) => {
    const given = values.get(name);
    if (given === undefined || fits(given.value)) return [];
    return [`${name} ${words}; it is ${JSON.stringify(given.value) ?? "nothing"} ${given.place}`];
  });
}

/** Call `checkHealth` first. */
export function readHealth(values: Values): HealthConfig {
  const port = values.get("healthPort")?.value ?? DEFAULT_HEALTH_PORT;
  const heartbeat = values.get("heartbeatTimeout");
  const buffer = values.get("taskTimeoutBuffer");
  return {
    port: port === OFF ? null : Number(port),
    isPortChosen: values.has("healthPort"),
    host: (values.get("healthHost")?.value as string | undefined) ?? DEFAULT_HEALTH_HOST,
    limits: {
      heartbeatMs:
        heartbeat === undefined
          ? DEFAULT_HEALTH_LIMITS.heartbeatMs
          : readDurationMs(heartbeat.value),
      taskBuffer:
        buffer === undefined ? DEFAULT_HEALTH_LIMITS.taskBuffer : readNumber(buffer.value),
    },
  };
}

function isWithin(value: unknown, min: number, max: number): boolean {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

function readNumber(value: unknown): number {
  if (typeof value === "string" && /^\d+(\.\d+)?$/.test(value)) return Number(value);
  return typeof value === "number" ? value : Number.NaN;
}

/** A duration as people write it, or seconds. */
function readDurationMs(value: unknown): number {
  const seconds = readNumber(value);
  if (!Number.isNaN(seconds)) return Math.round(seconds * 1_000);
  if (typeof value !== "string") return Number.NaN;
  try {
    return parseDuration("", value);
  } catch (error) {
    if (error instanceof SluiceError) return Number.NaN;
    throw error;
  }
}
