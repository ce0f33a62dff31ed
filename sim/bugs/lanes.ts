/** Bugs of lanes: whose turn it is, in which order, and who gives it on. */
import type { Bug } from "./bug.ts";

const LANES = "src/adapters/memory/lanes.ts";
const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const LANE = "src/core/batch/lane.ts";
const OPERATOR_ACTS = "src/adapters/memory/operator-acts.ts";
const SWEEPING = "src/adapters/memory/sweeping.ts";

export const laneBugs: readonly Bug[] = [
  {
    name: "turn-never-given",
    what: "The end of a batch starts nobody, and the sweep does not look at idle lanes either.",
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
    name: "turn-given-by-the-sweep-only",
    what: "The commit that frees a lane starts nobody: the successor waits for the next sweep.",
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
    what: "A batch lets go of its lane after each step: the next one starts before it has ended.",
    peers: ["pulsar#15317"],
    file: LIFECYCLE,
    before: 'this.#records.move(batch, "next_step");',
    after: 'this.#records.move(batch, "next_step");\n        this.#lanes.release(batch);',
  },
  {
    name: "newest-batch-first",
    what: "The newest batch of a lane has the next turn.",
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
    what: "In a lane that blocks, a head that cannot go on is passed by those behind it.",
    peers: ["pulsar#15317"],
    file: LANE,
    before: 'if (candidate.stuck === null || policy === "block")',
    after: "if (candidate.stuck === null)",
    rare: true,
  },
  {
    name: "parks-where-it-should-skip",
    what: "A lane that skips parks its stuck batches, and one that parks skips them.",
    file: LANE,
    before: 'if (policy === "park") park.push(candidate);',
    after: 'if (policy === "skip") park.push(candidate);',
    rare: true,
  },
  {
    name: "holder-parked-where-it-should-step-aside",
    what: "A holder that cannot go on is parked where its lane skips, and steps aside where it parks.",
    file: LANE,
    before: 'policy === "skip" ? "step_aside" : "park"',
    after: 'policy === "skip" ? "park" : "step_aside"',
  },
  {
    name: "stuck-holder-stays",
    what: "A holder that cannot go on keeps its lane where it should be parked.",
    peers: ["tw-tasks-executor#215"],
    file: LANE,
    before: 'return policy === "block" ? "stay"',
    after: 'return policy !== "skip" ? "stay"',
    rare: true,
  },
  {
    name: "resume-forgets-the-lane",
    what: "A resume gives no turn: whoever could go on now waits for the sweep.",
    peers: ["OCA/queue#531"],
    file: OPERATOR_ACTS,
    before:
      "for (const batch of this.#listWaitingUnder(scope))\n      lifecycle.startNextInLane(batch.submission.lane);",
    after: "void lifecycle;",
    rare: true,
  },
  {
    name: "reopened-at-the-back",
    what: "A batch that is reopened queues behind those that were submitted after it.",
    file: OPERATOR_ACTS,
    before: "batch.place = lanes.computeFront(batch);",
    after: "batch.place = lanes.computeBack(batch.submission.lane);",
    rare: true,
  },
];
