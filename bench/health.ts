/** The question about health: how soon a worker answers while its handlers block the loop. */
import type { Question } from "./question.ts";

export const FULL_HEALTH_SECONDS = 60;
/** To see that everything runs. */
export const QUICK_HEALTH_SECONDS = 6;

const SCRIPT = new URL("./subjects/sluice-health.ts", import.meta.url);
const WORKERS = 2;

export function askAboutHealth(seconds: number): Question {
  const name = `${WORKERS} workers`;
  return {
    key: "b",
    title: `/health of ${WORKERS} workers whose handlers block the loop, ${seconds} s`,
    subjects: [{ name, script: SCRIPT, options: { seconds, workers: WORKERS } }],
    shown: [
      { name: "p50Ms", unit: "ms, median" },
      { name: "p99Ms", unit: "ms, p99" },
      { name: "maxMs", unit: "ms, max" },
      { name: "answers", unit: "answers" },
    ],
    targets: [
      {
        what: "p99 of an answer",
        compute: (median) => median(name, "p99Ms"),
        bound: { kind: "below", limit: 50 },
        unit: "ms",
      },
    ],
  };
}
