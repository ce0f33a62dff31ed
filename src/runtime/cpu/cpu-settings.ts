/** A step's `cpu` settings, with all defaults filled in. */
import { availableParallelism } from "node:os";
import { z } from "zod";
import { wholeNumber } from "../system/whole-number.ts";

export const CPU_KINDS = ["processes", "threads"] as const;
export type CpuKind = (typeof CPU_KINDS)[number];

export interface CpuSettings {
  readonly kind: CpuKind;
  /** Tasks at once in one worker. */
  readonly size: number;
  /** Time limit of a task; then its member is killed. */
  readonly timeLimitMs: number;
  /** Memory limit of a member; above it, the member is killed. */
  readonly memoryBytesMax: number;
  /** Tasks after which a member is replaced by a fresh one. */
  readonly tasksMax: number;
  /** Chunks that a worker holds at once. */
  readonly chunks: number;
}

export const TIME_LIMIT_MS_MAX = 86_400_000;
const MIB = 1_048_576;
const SIZE_MAX = 1_024;
const CHUNKS_MAX = 1_000;

/** The defaults; `size` is the number of processors. */
export const DEFAULT_CPU: CpuSettings = {
  kind: "processes",
  size: availableParallelism(),
  // A task that never returns is convicted after three of these, within a minute.
  timeLimitMs: 15_000,
  memoryBytesMax: 1_024 * MIB,
  tasksMax: 1_000,
  chunks: 1,
};

export const cpuOptions = {
  kind: z.enum(CPU_KINDS, { error: `must be ${CPU_KINDS.join(" or ")}` }).default(DEFAULT_CPU.kind),
  size: wholeNumber(1, SIZE_MAX).default(DEFAULT_CPU.size),
  timeLimitMs: wholeNumber(1, TIME_LIMIT_MS_MAX).default(DEFAULT_CPU.timeLimitMs),
  // An idle Node process uses 50 MB already.
  memoryBytesMax: wholeNumber(128 * MIB, 1_024 * 1_024 * MIB).default(DEFAULT_CPU.memoryBytesMax),
  tasksMax: wholeNumber(1, 1_000_000).default(DEFAULT_CPU.tasksMax),
  chunks: wholeNumber(1, CHUNKS_MAX).default(DEFAULT_CPU.chunks),
} as const;

/** `true` means all defaults, `false` no CPU settings. */
export const cpuShape: z.ZodType<CpuSettings | null> = z.preprocess(
  (given) => (given === true ? {} : given === false ? null : given),
  z
    .strictObject(cpuOptions, { error: "must be true, or options such as { timeLimitMs: 10_000 }" })
    .nullable(),
);
