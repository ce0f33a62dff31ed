/** Bugs of lanes: which batch runs next, and which commit starts it. */
import type { Bug } from "./bug.ts";

const LANES = "src/adapters/memory/lanes.ts";
const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const LANE = "src/core/batch/lane.ts";
const OPERATOR_ACTS = "src/adapters/memory/operator-acts.ts";
const SWEEPING = "src/adapters/memory/sweeping.ts";

export const laneBugs: readonly Bug[] = [
  {
    name: "successor-never-started",
    what: "The end of a batch starts no successor, and the sweep does not look at idle lanes either.",
    peers: ["graphile-worker#254", "oban b7042ce7"],
    file: LIFECYCLE,
    before: "? [batch.submission.id, ...this.startNextInLane(batch.submission.lane)]",
    after: "? [batch.submission.id]",
    also: [
      {
        file: SWEEPING,
        before:
          "for (const lane of this.#lanes.listIdle()) ended.push(...this.#lifecycle.startNextInLane(lane));",
        after: "",
      },
    ],
  },
  {
    name: "successor-started-by-the-sweep-only",
    what: "The commit that frees a lane does not start the successor, which waits for the next sweep.",
    peers: ["solid_queue#546"],
    file: LIFECYCLE,
    before: "? [batch.submission.id, ...this.startNextInLane(batch.submission.lane)]",
    after: "? [batch.submission.id]",
  },
  {
    name: "lane-given-twice",
    what: "A batch starts although another one holds its lane.",
    peers: ["solid_queue#761", "solid_queue#735"],
    file: LANES,
    before: "if (this.findHolder(lane) !== undefined) return null;",
    after: "",
    also: [
      {
        file: LANES,
        before:
          'invariant(this.findHolder(batch.submission.lane) === undefined, "one batch holds a lane");',
        after: 'invariant(!batch.active, "it holds no lane");',
      },
    ],
  },
  {
    name: "lane-freed-between-steps",
    what: "A batch frees its lane after each step: the next batch starts before this one has ended.",
    peers: ["pulsar#15317"],
    file: LIFECYCLE,
    before: 'this.#records.move(batch, "next_step");',
    after: 'this.#records.move(batch, "next_step");\n        this.#lanes.release(batch);',
  },
  {
    name: "newest-batch-first",
    what: "The newest batch of a lane starts next.",
    peers: ["spring-cloud-aws#192"],
    file: LANES,
    before: `          !isEnded(batch.state),
      )
      .toSorted((a, b) => a.place - b.place);
  }

  /** Gives`,
    after: `          !isEnded(batch.state),
      )
      .toSorted((a, b) => b.place - a.place);
  }

  /** Gives`,
    rare: true,
  },
  {
    name: "blocked-head-is-passed",
    what: "In a lane that blocks, batches pass a head that cannot continue.",
    peers: ["pulsar#15317"],
    file: LANE,
    before: 'if (candidate.stuck === null || policy === "block")',
    after: "if (candidate.stuck === null)",
    rare: true,
  },
  {
    name: "parks-where-it-should-skip",
    what: 'A lane with the policy "skip" parks its stuck batches, and one with "park" skips them.',
    file: LANE,
    before: 'if (policy === "park") park.push(candidate);',
    after: 'if (policy === "skip") park.push(candidate);',
    rare: true,
  },
  {
    name: "holder-parked-where-it-should-step-aside",
    what: 'A holder that cannot continue is parked where the policy is "skip", and steps aside where it is "park".',
    file: LANE,
    before: 'policy === "skip" ? "step_aside" : "park"',
    after: 'policy === "skip" ? "park" : "step_aside"',
  },
  {
    name: "stuck-holder-stays",
    what: "A holder that cannot continue keeps its lane where it should be parked.",
    peers: ["tw-tasks-executor#215"],
    file: LANE,
    before: 'return policy === "block" ? "stay"',
    after: 'return policy !== "skip" ? "stay"',
    rare: true,
  },
  {
    name: "resume-forgets-the-lane",
    what: "A resume starts no batch of the lane: a batch that could run now waits for the sweep.",
    peers: ["OCA/queue#531"],
    file: OPERATOR_ACTS,
    before:
      "for (const batch of this.#listWaitingUnder(scope))\n      lifecycle.startNextInLane(batch.submission.lane);",
    after: "void lifecycle;",
    rare: true,
  },
  {
    name: "reopened-at-the-back",
    what: "A reopened batch queues behind batches that were submitted after it.",
    file: OPERATOR_ACTS,
    before: "batch.place = lanes.computeFront(batch);",
    after: "batch.place = lanes.computeBack(batch.submission.lane);",
    rare: true,
  },
];
