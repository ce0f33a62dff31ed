/**
 * Draws the calls of a seed. Most calls of a round concern the same batch, lane or key, so that they
 * meet; the state of the model shows which calls make sense now.
 */
import { isEnded } from "../../src/core/batch/batch.ts";
import { listDue, mayRun } from "../../src/adapters/memory/leasing.ts";
import { type Batch, currentStep, hasLeases, type State } from "../../src/adapters/memory/state.ts";
import type { Random } from "../../src/ports/random.ts";
import type { LeaseRequest, Report, SweepPolicy } from "../../src/ports/store/worker-store.ts";
import type { SetClock } from "../shadow-store.ts";
import { call, type Planned } from "./planned.ts";
import { pick } from "./schedule.ts";
import { drawSubmission } from "./submission.ts";
import type { Maker, Theme } from "./themes.ts";
import { composeReport, DEEDS, type Deed, type Held, refer, Worker } from "./worker.ts";

const LANES = ["a", "b"] as const;
const PIPELINES = ["p", "q"] as const;
const CONTENTS = ["c1", "c2", "c3", "c4", "c5"] as const;
const BY = { by: "ann", why: null } as const;
const LONG_MS = 10 ** 9;
const WORKERS = 4;
const UNFINISHED_MAX = 6;
const BATCHES_MAX = 14;

/** Only what expired: nothing is given up because it does not move. */
const PATIENT: SweepPolicy = {
  watchDelays: { steps: [], elseMs: LONG_MS, stallMs: LONG_MS },
  stallsMax: LONG_MS,
  orphanMs: LONG_MS,
  staleMs: LONG_MS,
};

const isUnfinished = ({ state }: Batch): boolean => !isEnded(state);
const isUnsliced = ({ state }: Batch): boolean => state === "submitted" || state === "slicing";

export class Traffic {
  readonly #random: Random;
  readonly #time: SetClock;
  /** The model's, as it is now. */
  #state: State;
  readonly workers: readonly Worker[];
  readonly ids: string[] = [];
  #focus = { lane: LANES[0] as string, nth: 0 };
  readonly #busy = new Set<Worker>();
  #parts = 0;

  constructor(random: Random, time: SetClock, state: State) {
    this.#random = random;
    this.#time = time;
    this.#state = state;
    this.workers = Array.from({ length: WORKERS }, (_, at) => new Worker(at + 1));
  }

  /** Each in its turn, before the first round. */
  *open(): Generator<Planned> {
    for (const { number } of this.workers) {
      yield call("registerWorker", [{ name: `worker ${number}` }]);
    }
    const serves = PIPELINES.map((pipeline) => ({ pipeline, version: "1" }));
    yield call("beat", [1, serves, LONG_MS]);
    for (let nth = 0; nth < 3; nth++) yield* this.launch();
  }

  /** A whole plan. */
  *launch(): Generator<Planned> {
    const id = `b${this.ids.length + 1}`;
    yield this.#submit();
    yield call("startSlicing", [id, false]);
    yield this.#plan(id);
    yield this.#finishSlicing(id);
  }

  get #room(): boolean {
    return this.ids.length < BATCHES_MAX && this.#list(isUnfinished).length < UNFINISHED_MAX;
  }

  /** What the next round is about. */
  draw(theme: Theme, calls: number): Planned[] {
    this.#busy.clear();
    this.#focus = { lane: pick(this.#random, LANES), nth: Math.floor(this.#random.next() * 9) };
    const planned: Planned[] = [];
    for (let tries = 0; planned.length < calls && tries < 60; tries++) {
      const next = this.#makers[pick(this.#random, theme)]();
      if (next === null) continue;
      if (next.isAlone === true) return [next];
      planned.push(next);
      if (next.worker !== null) this.#busy.add(next.worker);
    }
    return planned;
  }

  #chance(share: number): boolean {
    return this.#random.next() < share;
  }

  #list(wish: (batch: Batch) => boolean): Batch[] {
    return [...this.#state.batches.values()].filter(wish);
  }

  /** In most cases the same one for all calls of a round. */
  #choose(wish: (batch: Batch) => boolean): Batch | null {
    const all = this.#list(wish);
    const near = all.filter(({ submission }) => submission.lane === this.#focus.lane);
    const from = near.length > 0 ? near : all;
    if (from.length === 0) return null;
    return this.#chance(0.8)
      ? (from[this.#focus.nth % from.length] ?? null)
      : pick(this.#random, from);
  }

  #aim(verb: (batch: Batch) => Planned, wish: (batch: Batch) => boolean): Planned | null {
    const batch = this.#choose(wish);
    return batch === null ? null : verb(batch);
  }

  #freeWorker(wish: (worker: Worker) => boolean = () => true): Worker | null {
    const free = this.workers.filter((worker) => !this.#busy.has(worker) && wish(worker));
    return free.length === 0 ? null : pick(this.#random, free);
  }

  #submit(lane = this.#focus.lane): Planned {
    const id = `b${this.ids.length + 1}`;
    this.ids.push(id);
    return call("submit", [drawSubmission(this.#random, id, lane)]);
  }

  #plan(id: string): Planned {
    const batch = this.#state.batches.get(id);
    const step = batch === undefined ? undefined : currentStep(batch);
    const part = `part ${++this.#parts}`;
    const sizes = pick(this.#random, [[2], [2, 2], [1, 2, 1], [2, 2, 2, 2]]);
    return call("plan", [
      {
        batch: id,
        step: batch?.step ?? 0,
        afterChunks: step?.chunks.length ?? 0,
        chunks: sizes.map((items, nth) => ({
          items,
          locator: `${part} at ${nth}`,
          manifest: null,
          keys: null,
        })),
        cursor: part,
        fence: step?.sliceFence ?? 0,
        part,
      },
    ]);
  }

  #finishSlicing(id: string): Planned {
    const batch = this.#state.batches.get(id);
    const step = batch === undefined ? undefined : currentStep(batch);
    return call("finishSlicing", [id, step?.chunks.length ?? 0, step?.sliceFence ?? 0]);
  }

  /** The next call of its slicer. */
  #slice(batch: Batch): Planned {
    const { id } = batch.submission;
    if (batch.state === "submitted") return call("startSlicing", [id, false]);
    const { chunks, baseChunks } = currentStep(batch);
    if (chunks.length === baseChunks && this.#chance(0.9)) return this.#plan(id);
    return this.#finishSlicing(id);
  }

  #request(worker: Worker, batch: Batch, only: boolean): LeaseRequest {
    return {
      worker: worker.number,
      pipeline: batch.submission.pipeline,
      versions: ["1"],
      step: batch.step,
      batch: only ? batch.submission.id : null,
      itemsMax: pick(this.#random, [2, 4, 20]),
      chunksMax: pick(this.#random, [1, 2, 9]),
      leaseMs: pick(this.#random, [40, 200, 2_000]),
      slots: pick(this.#random, [1, 2, 4]),
      keeps: [],
    };
  }

  #work(worker: Worker, reports: readonly Report[], lease: LeaseRequest | null): Planned {
    return call("work", [reports, lease], worker, (answer) => worker.take(answer, reports));
  }

  #hasDueWork = (batch: Batch): boolean =>
    mayRun(this.#state, batch) && listDue(currentStep(batch), this.#time.monotonicMs()).length > 0;

  #lease(): Planned | null {
    const worker = this.#freeWorker();
    // Batches of different lanes meet in the scope of their pipeline.
    const due = this.#list(this.#hasDueWork);
    const far = due.length > 0 && this.#chance(0.4) ? pick(this.#random, due) : null;
    const batch = far ?? this.#choose(this.#hasDueWork);
    if (worker === null || batch === null) return null;
    return this.#work(worker, [], this.#request(worker, batch, this.#chance(0.7)));
  }

  #ofFocus(held: readonly Held[]): readonly Held[] {
    const near = held.filter(
      ({ lease }) => this.#state.batches.get(lease.batch)?.submission.lane === this.#focus.lane,
    );
    return near.length > 0 ? near : held;
  }

  #report(deed: Deed = pick(this.#random, DEEDS)): Planned | null {
    const worker = this.#freeWorker(({ held }) => held.length > 0);
    if (worker === null) return null;
    const [first] = this.#ofFocus(worker.held) as [Held];
    // Reports on one batch: a sweep changes one batch at a time.
    const all = worker.held.filter(({ lease }) => lease.batch === first.lease.batch);
    const said = deed === "succeed" ? all : all.slice(0, this.#chance(0.5) ? 1 : undefined);
    const intent = this.#chance(0.15) ? "keep" : "yield";
    const reports = said.map((held) => composeReport(this.#random, held, deed, intent));
    const batch = this.#state.batches.get(first.lease.batch);
    const asks = batch !== undefined && this.#chance(0.4);
    return this.#work(
      worker,
      reports,
      asks ? this.#request(worker, batch, this.#chance(0.5)) : null,
    );
  }

  /** A process that lost its lease reports all the same. */
  #haunt(): Planned | null {
    const worker = this.#freeWorker(({ gone }) => gone.length > 0);
    if (worker === null) return null;
    const held = pick(this.#random, worker.gone);
    return this.#work(worker, [composeReport(this.#random, held, "succeed", "yield")], null);
  }

  /** The same report again, from a process that did not get its answer. */
  #repeat(): Planned | null {
    const worker = this.workers.find(({ held }) => held.length > 0);
    const [held] = worker?.held ?? [];
    if (worker === undefined || held === undefined) return null;
    const report = composeReport(this.#random, held, "succeed", "yield");
    return call("work", [[report], null]);
  }

  #renew(): Planned | null {
    const worker = this.#freeWorker(({ held }) => held.length > 0);
    if (worker === null) return null;
    const leases = worker.held.map(({ lease }) => refer(lease));
    return call("renew", [worker.number, leases, pick(this.#random, [60, 500])], worker);
  }

  #claimContents(): Planned | null {
    const worker = this.#freeWorker(({ held }) => held.length > 0);
    if (worker === null) return null;
    const [held] = this.#ofFocus(worker.held) as [Held];
    const { lease, claimed } = held;
    const first = this.#focus.nth % (CONTENTS.length - 1);
    const pair = CONTENTS.slice(first, first + 2);
    const names = this.#chance(0.5) ? pair : pair.toReversed();
    const contents = names
      .slice(0, Math.min(lease.end - lease.start, this.#chance(0.5) ? 1 : 2))
      .map((content, index) => ({ index, content }));
    return call("claimContents", [refer(lease), contents], worker, (answer) => {
      for (const [at, claim] of (answer ?? []).entries()) {
        const content = contents[at];
        if (claim === "claimed" && content !== undefined) {
          claimed.set(content.index, content.content);
        }
      }
    });
  }

  #scope(): { readonly scope: "batch" | "lane" | "pipeline"; readonly name: string } | null {
    const batch = this.#choose(isUnfinished);
    if (batch === null) return null;
    const { id, lane, pipeline } = batch.submission;
    const scope = pick(this.#random, ["batch", "batch", "lane", "pipeline", "pipeline"] as const);
    return { scope, name: { batch: id, lane, pipeline }[scope] };
  }

  #pause(): Planned | null {
    const scope = this.#scope();
    return scope === null ? null : call("pause", [{ ...scope, mode: "drain", ...BY }]);
  }

  #resume(): Planned | null {
    const parked = this.#list(({ parked: why }) => why !== null);
    const known = [
      ...[...this.#state.pauses.values()].map(({ scope, name }) => ({ scope, name })),
      ...parked.map(({ submission }) => ({ scope: "batch" as const, name: submission.id })),
    ];
    return known.length === 0 ? null : call("resume", [pick(this.#random, known), BY]);
  }

  #move(): Planned | null {
    const waits = ({ active, state, parked }: Batch): boolean =>
      !active && !isEnded(state) && parked === null;
    const batch = this.#choose(waits);
    const other = this.#choose(waits);
    if (batch === null || other === null) return null;
    const move = pick(this.#random, [
      { to: "front" },
      { to: "back" },
      { before: other.submission.id },
    ] as const);
    return call("moveInLane", [batch.submission.id, move, BY]);
  }

  #redrive(): Planned | null {
    const wish = ({ pruned, state, steps }: Batch): boolean =>
      !pruned &&
      (isEnded(state) || steps.some(({ counts }) => counts.failed > 0)) &&
      steps.some(({ counts }) => counts.failed + counts.cancelled > 0);
    const request = {
      filter: {},
      ceiling: pick(this.#random, [100, 1]),
      perSecond: null,
      withCancelled: true,
      dryRun: false,
    };
    return this.#aim(
      ({ submission }) => call("redrive", [submission.id, { ...request, ...BY }]),
      wish,
    );
  }

  #prune(): Planned | null {
    const whole = this.#chance(0.4);
    const ages = { scratchAgeMs: -1, evidenceAgeMs: whole ? -1 : null };
    return this.#aim(
      ({ submission }) => call("prune", [{ ...ages, batch: submission.id, dryRun: false }]),
      ({ state, pruned }) => isEnded(state) && (whole || !pruned),
    );
  }

  #draws(): Planned {
    const random = this.#random;
    const keys = this.#chance(0.5) ? ["x", "y"] : ["y", "x"];
    const draws = keys.slice(0, pick(random, [1, 2, 2])).map((key) => ({
      bucket: "rate/a",
      key,
      spec: { kind: "rate", perSecond: 7, burst: 3 } as const,
      cost: 1,
      count: pick(random, [1, 2]),
    }));
    return call("draw", [draws, pick(random, [2, 500])]);
  }

  readonly #makers = {
    submit: () => (this.#room ? this.#submit() : null),
    slice: () => this.#aim((batch) => this.#slice(batch), isUnsliced),
    add: () =>
      this.#aim(
        ({ submission }) => this.#plan(submission.id),
        ({ state, sealed, submission }) => state === "running" && !sealed && submission.open,
      ),
    seal: () =>
      this.#aim(
        ({ submission }) => call("seal", [submission.id]),
        ({ state, sealed }) => !sealed && (state === "running" || state === "ready"),
      ),
    fail: () =>
      this.#aim(
        ({ submission }) => call("fail", [submission.id, { code: "STOP", message: "enough" }]),
        isUnfinished,
      ),
    lease: () => this.#lease(),
    report: () => this.#report(),
    finish: () => this.#report("succeed"),
    stumble: () => this.#report("despair"),
    haunt: () => this.#haunt(),
    repeat: () => this.#repeat(),
    renew: () => this.#renew(),
    claimContents: () => this.#claimContents(),
    cancel: () =>
      this.#aim(
        ({ submission }) =>
          call("cancel", [submission.id, { mode: pick(this.#random, ["now", "drain"]), ...BY }]),
        (batch) => isUnfinished(batch) && (hasLeases(batch) || this.#chance(0.3)),
      ),
    pause: () => this.#pause(),
    resume: () => this.#resume(),
    setPolicy: () =>
      call("setLanePolicy", [this.#focus.lane, pick(this.#random, ["skip", "park", "block"])]),
    move: () => this.#move(),
    redrive: () => this.#redrive(),
    prune: () => this.#prune(),
    sweep: () => call("sweep", [PATIENT]),
    draw: () => this.#draws(),
    openBucket: () => call("openBucket", [{ bucket: "rate/a", key: "x" }]),
    closeBucket: () => call("closeBucket", [{ bucket: "rate/a", key: "x" }, 20]),
    setLimit: () => {
      const scope = this.#scope();
      if (scope === null) return null;
      const value = pick(this.#random, [1, 2, null]);
      const set = call("setLimit", [{ kind: "cap", ...scope, value }, BY]);
      // Leases read caps without a lock: one under way may still grant slots of the former cap.
      return { ...set, isAlone: true };
    },
    readStops: () => call("readStops", [this.ids.slice(-3)]),
  } satisfies Readonly<Record<Maker, () => Planned | null>>;
}
