/**
 * The store contract once more, item by item and in the simplest form: what every answer must be.
 * It shares no line with core, so that it finds a mistake in a decision that both adapters share.
 * One word and a few numbers per item; no bit maps, no rows, no index.
 */
import type { InlineResult, PlanPart } from "../../src/ports/store/conductor-store.ts";
import type {
  LeaseRef,
  LeaseRequest,
  LeasedChunk,
  Report,
  SweepResult,
  WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { toWords } from "../support/outcome-words.ts";
import {
  type Batch,
  type Chunk,
  describeLease,
  hasEnded,
  hasLeases,
  isKnown,
  type Step,
  stepOf,
} from "./oracle-batch.ts";
import { NO_PERMITS } from "../support/permits.ts";
import { ConductedOracle } from "./oracle-conducting.ts";

export class Oracle extends ConductedOracle {
  readonly #claims = new Map<string, { worker: number; until: number }>();

  planInline(part: PlanPart, request: LeaseRequest): InlineResult {
    const planned = this.plan(part);
    if (planned.kind !== "planned") return planned;
    const finished = this.finishSlicing(part.batch, planned.chunks, part.fence);
    if (finished.kind === "moved_on") return this.movedOn(this.find(part.batch));
    const [chunk] = this.#lease({ ...request, batch: part.batch }, []);
    return chunk === undefined ? planned : { kind: "leased", chunk, permits: NO_PERMITS };
  }

  /**
   * `chosen`: what a store leased. The rules of fair shares decide the order of batches. This
   * checks which chunks of a batch come first, and that nothing leasable is left out.
   */
  work(
    reports: readonly Report[],
    request: LeaseRequest | null,
    chosen: readonly LeaseRef[] = [],
  ): WorkResult {
    const touched = new Set<Batch>();
    const answers = reports.map((report) => {
      const chunk = this.#findHeld(report);
      if (chunk === null) return "lost";
      const batch = this.find(report.batch);
      touched.add(batch);
      if (report.abandoned.length > 0 && batch.cancel !== null) {
        const items = report.abandoned.map((index) => chunk.start + index);
        batch.abandoned.set(`${report.step}/${report.chunk}`, items);
      }
      return this.#report(batch.steps[report.step]!, chunk, report);
    });
    const ended = [...touched].flatMap((batch) => this.advanceBatch(batch));
    const leased = request === null ? [] : this.#lease(request, chosen);
    const waits =
      request === null || leased.length > 0
        ? []
        : this.#listBatches(request).flatMap((batch) =>
            stepOf(batch)
              .chunks.filter(({ phase }) => phase === "waiting")
              .map(({ dueAt }) => Math.max(0, dueAt - this.now())),
          );
    return {
      reports: answers,
      leased,
      nextDueInMs: waits.length === 0 ? null : Math.min(...waits),
      ended,
      permits: request === null ? null : NO_PERMITS,
    };
  }

  #findHeld({ batch, step, chunk, fence }: LeaseRef): Chunk | null {
    const found = this.batches.find(({ asked }) => asked.id === batch)?.steps[step]?.chunks[chunk];
    return found?.phase === "leased" && found.fence === fence ? found : null;
  }

  #report(step: Step, chunk: Chunk, report: Report): "settled" | "kept" | "yielded" {
    const now = this.now();
    const open = new Set(chunk.items.filter(({ word }) => word === "pending"));
    for (const [index, word] of toWords(report.outcomes, chunk.items.length).entries()) {
      const item = chunk.items[index]!;
      item.started = false;
      if (open.has(item)) item.word = word;
    }
    for (const { index, key, value } of report.results) {
      const item = chunk.items[index]!;
      if (!open.has(item) || item.word !== "succeeded") continue;
      const place = { step: report.step, item: chunk.start + index };
      step.results.set(chunk.start + index, { ...place, key, value });
    }
    for (const { index, key, attempts, retryInMs, errorClass, code, message } of report.failures) {
      const item = chunk.items[index]!;
      if (!open.has(item)) continue;
      item.attempts = attempts;
      item.key = key;
      item.dueAt = now + (retryInMs ?? 0);
      if (retryInMs !== null) continue;
      const error = { errorClass, code, message, failedAt: this.clock.wallMs() };
      const place = { step: report.step, item: chunk.start + index, key };
      const { deaths, drive } = item;
      const untouched = { discarded: null, edited: false };
      item.letter = { ...place, attempts, deaths, ...error, drive, ...untouched };
    }
    for (const index of report.starting) {
      const item = chunk.items[index]!;
      item.started = item.word === "pending";
    }
    const left = chunk.items.filter(({ word }) => word === "pending");
    if (left.length === 0) {
      chunk.phase = "over";
      return "settled";
    }
    if (report.intent === "keep") return "kept";
    chunk.phase = "waiting";
    // With an item that never ran the chunk is due now, whatever the others are.
    const fresh = left.some((item) => !isKnown(item));
    chunk.dueAt = fresh ? now : Math.min(...left.map(({ dueAt }) => dueAt));
    return "yielded";
  }

  #listBatches({ pipeline, versions, step, batch: only }: LeaseRequest): Batch[] {
    return this.batches.filter((batch) => {
      const { state, asked, cancel } = batch;
      const may = state === "running" && cancel === null && this.findPause(batch) === null;
      const fits = asked.pipeline === pipeline && versions.includes(asked.version);
      return may && fits && batch.step === step && (only === null || only === asked.id);
    });
  }

  #lease(request: LeaseRequest, chosen: readonly LeaseRef[]): LeasedChunk[] {
    const now = this.now();
    const rest = this.#listBatches(request).flatMap((batch) => {
      const { chunks } = stepOf(batch);
      const due = chunks
        .filter(({ phase, dueAt }) => phase === "waiting" && dueAt <= now)
        .toSorted((a, b) => a.dueAt - b.dueAt || a.start - b.start);
      const fresh = chunks.filter(({ phase }) => phase === "planned");
      return [...due, ...fresh].map((chunk) => ({ batch, chunk }));
    });
    const first = chosen.flatMap(({ batch: id }) => {
      const at = rest.findIndex(({ batch }) => batch.asked.id === id);
      return at === -1 ? [] : rest.splice(at, 1);
    });
    const leased: LeasedChunk[] = [];
    let items = 0;
    for (const { batch, chunk } of [...first, ...rest]) {
      if (leased.length > 0 && items >= request.itemsMax) break;
      if (leased.length >= request.chunksMax) break;
      chunk.phase = "leased";
      chunk.fence += 1;
      chunk.until = now + request.leaseMs;
      items += chunk.items.length;
      leased.push(describeLease(batch, chunk, now));
    }
    return leased;
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): LeaseRef[] {
    return leases.filter((lease) => {
      const chunk = this.#findHeld(lease);
      const stopped = chunk !== null && this.find(lease.batch).cancel?.mode === "now";
      if (chunk !== null && !stopped) chunk.until = this.now() + leaseMs;
      return chunk === null;
    });
  }

  sweep(): SweepResult {
    const living = this.batches.filter((batch) => !hasEnded(batch));
    const lost = living.map((batch) => this.#sweepLeases(batch));
    const ended = living
      .filter((_, at) => lost[at]! > 0)
      .flatMap((batch) => this.advanceBatch(batch));
    for (const holders of [false, true]) {
      const now = living.filter(({ active }) => active === holders);
      ended.push(...now.flatMap((batch) => this.#expire(batch)));
    }
    let tended = 0;
    for (const batch of living) {
      if (!this.#makeWay(batch)) continue;
      tended += 1;
      ended.push(...this.startNextInLane(batch.asked.lane));
    }
    for (const lane of this.lanes.keys()) ended.push(...this.startNextInLane(lane));
    return { lostLeases: lost.reduce((sum, one) => sum + one, 0), tended, ended };
  }

  #sweepLeases(batch: Batch): number {
    const now = this.now();
    let count = 0;
    for (const [number, { chunks }] of batch.steps.entries()) {
      for (const [at, chunk] of chunks.entries()) {
        if (chunk.phase !== "leased" || chunk.until > now) continue;
        this.#lose(number, chunk, now);
        const place = `${number}/${at}`;
        if (batch.cancel !== null && !batch.abandoned.has(place)) batch.abandoned.set(place, null);
        count += 1;
      }
    }
    return count;
  }

  #expire(batch: Batch): string[] {
    if (hasEnded(batch)) return [];
    const { open, input, sealWithinMs } = batch.asked;
    const sealAt = open || input === null ? batch.submittedAt + sealWithinMs : Infinity;
    const now = this.clock.wallMs();
    if ((batch.deadlineAt ?? Infinity) <= now) {
      const message = "it did not end before its deadline";
      this.end(batch, "expired", { code: "DEADLINE", message });
    } else if (!batch.sealed && sealAt <= now) {
      const message = "its producer did not seal it in time";
      this.end(batch, "expired", { code: "SEAL_DEADLINE", message });
    } else return [];
    return [batch.asked.id, ...this.startNextInLane(batch.asked.lane)];
  }

  /** A paused holder, if the lane's policy allows it and another batch could start. */
  #makeWay(batch: Batch): boolean {
    const { lane } = batch.asked;
    const policy = this.policies.get(lane) ?? "block";
    const pause = this.findPause(batch);
    const stuck = batch.active && !hasEnded(batch) && batch.cancel === null && pause !== null;
    const free = this.waitingIn(lane).some((next) => this.findPause(next) === null);
    if (!stuck || policy === "block" || !free || hasLeases(batch)) return false;
    if (policy === "park") this.park(batch, `its ${pause.scope} is paused`);
    else this.stepAside(batch);
    return true;
  }

  #lose(step: number, chunk: Chunk, now: number): void {
    const started = chunk.items.filter((item) => item.started);
    for (const item of started) {
      item.started = false;
      item.attempts += 1;
      // The first death in bulk blamed no item; it is counted with the item's own first death.
      const deaths = item.deaths === 0 ? 2 : item.deaths + 1;
      item.deaths = started.length === 1 ? deaths : Math.min(deaths, 2);
      if (item.deaths < 3) continue;
      item.word = "failed";
      item.letter = {
        step,
        item: chunk.start + chunk.items.indexOf(item),
        key: item.key,
        attempts: Math.max(item.attempts, 3),
        deaths: 3,
        errorClass: "permanent",
        code: "POISON",
        message: "",
        failedAt: this.clock.wallMs(),
        drive: item.drive,
        discarded: null,
        edited: false,
      };
    }
    chunk.guarded = true;
    const left = chunk.items.filter(({ word }) => word === "pending");
    chunk.dueAt = Math.min(...left.map(({ dueAt }) => Math.max(now, dueAt)));
    chunk.phase = left.length > 0 ? "waiting" : "over";
  }

  claim(task: string, worker: number, forMs: number): boolean {
    const held = this.#claims.get(task);
    if (held !== undefined && held.worker !== worker && held.until > this.now()) return false;
    this.#claims.set(task, { worker, until: this.now() + forMs });
    return true;
  }

  unclaim(task: string, worker: number): void {
    if (this.#claims.get(task)?.worker === worker) this.#claims.delete(task);
  }
}
