/**
 * The questions about CPU work: what a second core brings, and whether the worker's own loop stays
 * free meanwhile. README.md explains each.
 */
import { count, divide, type Question } from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface CpuSizes {
  readonly tasks: number;
}

export const FULL_CPU_SIZES: CpuSizes = { tasks: 1_000 };

/** A size of seconds, to see that everything runs. */
export const QUICK_CPU_SIZES: CpuSizes = { tasks: 50 };

const SCRIPT = new URL("./subjects/sluice-cpu.ts", import.meta.url);

const KINDS = ["processes", "threads"] as const;
type Kind = (typeof KINDS)[number];
const SINGULARS: Readonly<Record<Kind, string>> = { processes: "process", threads: "thread" };

export function listCpuQuestions(sizes: CpuSizes): readonly Question[] {
  return [askAboutCores(sizes)];
}

function askAboutCores({ tasks }: CpuSizes): Question {
  const nameOf = (kind: Kind, size: number): string =>
    size === 1 ? `1 ${SINGULARS[kind]}` : `${size} ${kind}`;
  const subjects = KINDS.flatMap((kind) =>
    [1, 2].map((size) => ({
      name: nameOf(kind, size),
      script: SCRIPT,
      options: { kind, size, tasks },
    })),
  );
  return {
    key: "a",
    title: `${count(tasks)} tasks of about 20 ms each, in a pool of one and of two`,
    subjects,
    shown: [
      { name: "tasksPerSecond", unit: "tasks/s" },
      { name: "loopLagP99Ms", unit: "ms event-loop delay, p99" },
    ],
    targets: KINDS.flatMap((kind) => [
      {
        what: `${nameOf(kind, 2)} / ${nameOf(kind, 1)}`,
        compute: (median) =>
          divide(
            median(nameOf(kind, 2), "tasksPerSecond"),
            median(nameOf(kind, 1), "tasksPerSecond"),
          ),
        bound: kind === "processes" ? { kind: "at least", limit: 1.6 } : null,
        unit: "x",
      } satisfies Question["targets"][number],
      {
        what: `p99 of the event-loop delay, ${nameOf(kind, 2)}`,
        compute: (median) => median(nameOf(kind, 2), "loopLagP99Ms"),
        bound: kind === "processes" ? { kind: "below", limit: 50 } : null,
        unit: "ms",
      } satisfies Question["targets"][number],
    ]),
  };
}
