/** Small batches that share lanes, keys, tenants and caps. */
import type { Random } from "../../src/ports/random.ts";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import { pick } from "./schedule.ts";

const LONG_MS = 10 ** 9;
const CAPS = [undefined, undefined, { batch: 1 }, { lane: 2 }, { pipeline: 2 }, { pipeline: 3 }];

export function drawSubmission(random: Random, id: string, lane: string): Submission {
  const step = {
    chunkSize: 2,
    maxRedrives: pick(random, [0, 0, 1]),
    carries: true,
    budget: null,
    canary: null,
  };
  const first = { ...step, name: "one" };
  const caps = pick(random, CAPS);
  return {
    id,
    pipeline: pick(random, ["p", "p", "q"]),
    version: "1",
    lane,
    tenant: pick(random, ["t", "u"]),
    key: pick(random, [null, null, null, "k1", "k2"]),
    input: "1",
    inputHash: pick(random, ["h", "h", "i"]),
    resume: random.next() < 0.1,
    open: random.next() < 0.2,
    sealWithinMs: LONG_MS,
    deadlineAt: null,
    settings: {
      strict: false,
      steps: random.next() < 0.2 ? [first, { ...step, name: "two" }] : [first],
      ...(caps === undefined ? {} : { caps }),
    },
  };
}
