/**
 * The questions about CPU work: what a second core brings, and whether the worker's own loop stays
 * free meanwhile. README.md says in words what each means.
 */
import { count, divide, type Question } from "./question.ts";

/** How large the questions are; the targets speak of the full size only. */
export interface CpuSizes {
  readonly tasks: number;
}

export const FULL_CPU_SIZES: CpuSizes = { tasks: 1_000 };

/** To see that everything runs, in seconds. */
export const QUICK_CPU_SIZES: CpuSizes = { tasks: 50 };

const SCRIPT = new URL("./subjects/sluice-cpu.ts", import.meta.url);

export function listCpuQuestions(sizes: CpuSizes): readonly Question[] {
  return [askAboutCores(sizes)];
}

function askAboutCores({ tasks }: CpuSizes): Question {
  const nameOf = (kind: string, size: number): string => `${size} of ${kind}`;
  const subjects = ["processes", "threads"].flatMap((kind) =>
    [1, 2].map((size) => ({
      name: nameOf(kind, size),
      script: SCRIPT,
      options: { kind, size, tasks },
    })),
  );
  return {
    key: "a",
    title: `${count(tasks)} tasks of some 20 ms each, on one core and on two`,
    subjects,
    shown: [
      { name: "tasksPerSecond", unit: "tasks/s" },
      { name: "loopLagP99Ms", unit: "ms lag of the loop, p99" },
    ],
    targets: ["processes", "threads"].flatMap((kind) => [
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
        what: `lag of the loop, ${nameOf(kind, 2)}`,
        compute: (median) => median(nameOf(kind, 2), "loopLagP99Ms"),
        bound: kind === "processes" ? { kind: "below", limit: 50 } : null,
        unit: " ms",
      } satisfies Question["targets"][number],
    ]),
  };
}
