/**
 * The store contract once more, item by item and as plainly as it can be said: what every answer must
 * be. It shares no line with core, so that a mistake in a decision that both adapters share still
 * shows. One word and a few numbers an item; no maps of bits, no rows, no index.
 */
import type { Clock } from "../../src/ports/clock.ts";
import type {
  ActResult,
  InlineResult,
  PlanPart,
  PlanResult,
  Submission,
  SubmitResult,
} from "../../src/ports/conducting.ts";
import type {
  LeaseRef,
  LeaseRequest,
  LeasedChunk,
  Report,
  SweepResult,
  WorkResult,
} from "../../src/ports/working.ts";
import { toWords } from "../support/outcome-words.ts";
import {
  type Batch,
  type Chunk,
  describe,
  describeLease,
  done,
  type Ending,
  hasEnded,
  isKnown,
  itemsOf,
  makeItem,
  movedOn,
} from "./oracle-batch.ts";

export class Oracle {
  readonly batches: Batch[] = [];
  readonly #clock: Clock;
  readonly #claims = new Map<string, { worker: number; until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  find(id: string): Batch {
    const batch = this.batches.find(({ asked }) => asked.id === id);
    if (batch === undefined) throw new Error(`the oracle knows no batch ${id}`);
    return batch;
  }

  submit(asked: Submission): SubmitResult {
    const same = this.#findSame(asked);
    if (same !== undefined) {
      const kind = same.asked.inputHash === asked.inputHash ? "existing" : "key_taken";
      return { kind, batch: describe(same) };
    }
    const batch: Batch = {
      asked,
      submittedAt: this.#clock.wallMs(),
      state: "submitted",
      sealed: false,
      startedAt: null,
      endedAt: null,
      reason: null,
      cursor: null,
      sliceFence: 0,
      chunks: [],
      keys: new Map(),
      results: new Map(),
      records: [],
    };
    this.batches.push(batch);
    const { pipeline, version, lane, key, inputHash } = asked;
    this.#record(batch, "batch.submitted", { pipeline, version, lane, key, inputHash });
    return { kind: "created", batch: describe(batch) };
  }

  #findSame({ id, key, pipeline, lane, inputHash, resume }: Submission): Batch | undefined {
    const repeated = this.batches.find(({ asked }) => asked.id === id);
    if (repeated !== undefined) return repeated;
    const ours = this.batches.filter(({ asked }) => asked.pipeline === pipeline);
    if (key !== null) return ours.find(({ asked }) => asked.key === key);
    const unfinished = ours.filter((batch) => !hasEnded(batch) && batch.asked.key === null);
    return unfinished.findLast(
      ({ asked }) => resume && asked.lane === lane && asked.inputHash === inputHash,
    );
  }

  startSlicing(id: string, afresh: boolean): ActResult {
    const batch = this.find(id);
    if (batch.state === "submitted" || batch.state === "slicing") batch.sliceFence += 1;
    if (batch.state === "submitted") {
      batch.state = "slicing";
      batch.startedAt = this.#clock.wallMs();
      this.#record(batch, "batch.started", {});
      this.#record(batch, "slicing.started", {});
      return done(batch);
    }
    if (batch.state !== "slicing") return movedOn(batch);
    if (afresh) {
      batch.chunks = [];
      batch.keys.clear();
      batch.cursor = null;
    }
    return done(batch);
  }

  plan({ batch: id, afterChunks, chunks, cursor, fence, part }: PlanPart): PlanResult {
    const batch = this.find(id);
    const slices = batch.state === "slicing" && batch.sliceFence === fence;
    const grows = slices || (batch.state === "running" && !batch.sealed);
    const answer = { kind: "planned", chunks: afterChunks + chunks.length } as const;
    if (!grows || batch.chunks.length !== afterChunks) {
      return batch.chunks[afterChunks]?.part === part ? answer : movedOn(batch);
    }
    const keys = new Map(batch.keys);
    let item = itemsOf(batch).length;
    for (const planned of chunks) {
      for (const [position, key] of (planned.keys ?? []).entries()) {
        if (key === null) continue;
        const [firstItem, secondItem] = [keys.get(key), item + position];
        if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
        keys.set(key, secondItem);
      }
      item += planned.items;
    }
    for (const [key, position] of keys) batch.keys.set(key, position);
    for (const { items, locator } of chunks) {
      batch.chunks.push({
        start: itemsOf(batch).length,
        items: Array.from({ length: items }, makeItem),
        part,
        locator,
        phase: "planned",
        fence: 0,
        until: 0,
        dueAt: 0,
        careful: false,
      });
    }
    batch.cursor = cursor;
    return answer;
  }

  finishSlicing(id: string, chunks: number, fence: number): ActResult {
    const batch = this.find(id);
    const slices = batch.state === "slicing" && batch.sliceFence === fence;
    if (!slices || batch.chunks.length !== chunks) return movedOn(batch);
    batch.state = "running";
    this.#record(batch, "slicing.finished", { items: itemsOf(batch).length, chunks });
    if (!batch.asked.open) batch.sealed = true;
    this.#endIfOver(batch);
    return done(batch);
  }

  planInline(part: PlanPart, request: LeaseRequest): InlineResult {
    const planned = this.plan(part);
    if (planned.kind !== "planned") return planned;
    const finished = this.finishSlicing(part.batch, planned.chunks, part.fence);
    if (finished.kind === "moved_on") return movedOn(this.find(part.batch));
    const [chunk] = this.#lease({ ...request, batch: part.batch });
    return { kind: "leased", chunk: chunk! };
  }

  seal(id: string): ActResult {
    const batch = this.find(id);
    if (batch.sealed) return done(batch);
    if (batch.state !== "running") return movedOn(batch);
    batch.sealed = true;
    const [items, chunks] = [itemsOf(batch).length, batch.chunks.length];
    this.#record(batch, "batch.sealed", { items, chunks });
    this.#endIfOver(batch);
    return done(batch);
  }

  fail(id: string, reason: { code: string; message: string }): ActResult {
    const batch = this.find(id);
    if (hasEnded(batch)) return movedOn(batch);
    this.#end(batch, "failed", reason);
    return done(batch);
  }

  #endIfOver(batch: Batch): boolean {
    const words = itemsOf(batch).map(({ word }) => word);
    if (batch.state !== "running" || !batch.sealed || words.includes("pending")) return false;
    this.#end(batch, words.includes("failed") ? "completed_with_errors" : "succeeded", null);
    return true;
  }

  #end(batch: Batch, state: Ending, reason: { code: string; message: string } | null): void {
    const from = batch.state;
    batch.state = state;
    batch.endedAt = this.#clock.wallMs();
    batch.reason = reason;
    for (const chunk of batch.chunks) chunk.phase = "over";
    const { counts } = describe(batch);
    if (from === "slicing") this.#record(batch, "slicing.aborted", { ...reason });
    if (from === "running") this.#record(batch, "step.ended", { step: 0, counts });
    this.#record(batch, "batch.ended", { state, counts, ...reason });
  }

  #record(batch: Batch, type: string, data: object): void {
    batch.records.push({ type, at: new Date(this.#clock.wallMs()).toISOString(), data });
  }

  work(reports: readonly Report[], request: LeaseRequest | null): WorkResult {
    const touched = new Set<Batch>();
    const answers = reports.map((report) => {
      const chunk = this.#findHeld(report);
      if (chunk === null) return "lost";
      touched.add(this.find(report.batch));
      return this.#report(this.find(report.batch), chunk, report);
    });
    const ended = [...touched].filter((batch) => this.#endIfOver(batch));
    const leased = request === null ? [] : this.#lease(request);
    const waits =
      request === null || leased.length > 0
        ? []
        : this.#listBatches(request).flatMap(({ chunks }) =>
            chunks.filter(({ phase }) => phase === "waiting").map(({ dueAt }) => dueAt),
          );
    return {
      reports: answers,
      leased,
      nextDueInMs: waits.length === 0 ? null : Math.min(...waits) - this.#clock.monotonicMs(),
      ended: ended.map(({ asked }) => asked.id),
    };
  }

  #findHeld({ batch, chunk, fence }: LeaseRef): Chunk | null {
    const found = this.batches.find(({ asked }) => asked.id === batch)?.chunks[chunk];
    return found?.phase === "leased" && found.fence === fence ? found : null;
  }

  #report(batch: Batch, chunk: Chunk, report: Report): "settled" | "kept" | "yielded" {
    const now = this.#clock.monotonicMs();
    const open = new Set(chunk.items.filter(({ word }) => word === "pending"));
    for (const [index, word] of toWords(report.outcomes, chunk.items.length).entries()) {
      const item = chunk.items[index]!;
      item.started = false;
      if (open.has(item)) item.word = word;
    }
    for (const { index, key, value } of report.results) {
      const item = chunk.items[index]!;
      if (!open.has(item) || item.word !== "succeeded") continue;
      batch.results.set(chunk.start + index, { step: 0, item: chunk.start + index, key, value });
    }
    for (const { index, key, attempts, retryInMs, errorClass, code, message } of report.failures) {
      const item = chunk.items[index]!;
      if (!open.has(item)) continue;
      item.attempts = attempts;
      item.key = key;
      item.dueAt = now + (retryInMs ?? 0);
      if (retryInMs !== null) continue;
      const error = { errorClass, code, message, failedAt: this.#clock.wallMs() };
      const place = { step: 0, item: chunk.start + index, key };
      item.letter = { ...place, attempts, deaths: item.deaths, ...error };
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
    chunk.dueAt = Math.min(...left.map((item) => (isKnown(item) ? item.dueAt : now)));
    // Beside an item that never ran nothing else decides: the chunk is due now.
    if (left.some((item) => !isKnown(item))) chunk.dueAt = now;
    return "yielded";
  }

  #listBatches({ pipeline, versions, batch }: LeaseRequest): Batch[] {
    return this.batches.filter(
      ({ state, asked }) =>
        state === "running" &&
        asked.pipeline === pipeline &&
        versions.includes(asked.version) &&
        (batch === null || batch === asked.id),
    );
  }

  #lease(request: LeaseRequest): LeasedChunk[] {
    const now = this.#clock.monotonicMs();
    const candidates = this.#listBatches(request).flatMap((batch) => {
      const due = batch.chunks
        .filter(({ phase, dueAt }) => phase === "waiting" && dueAt <= now)
        .toSorted((a, b) => a.dueAt - b.dueAt || a.start - b.start);
      const fresh = batch.chunks.filter(({ phase }) => phase === "planned");
      return [...due, ...fresh].map((chunk) => ({ batch, chunk }));
    });
    const leased: LeasedChunk[] = [];
    let items = 0;
    for (const { batch, chunk } of candidates) {
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
      if (chunk !== null) chunk.until = this.#clock.monotonicMs() + leaseMs;
      return chunk === null;
    });
  }

  sweep(): SweepResult {
    const now = this.#clock.monotonicMs();
    let lostLeases = 0;
    const ended: string[] = [];
    for (const batch of this.batches) {
      const lost = batch.chunks.filter(({ phase, until }) => phase === "leased" && until <= now);
      for (const chunk of lost) this.#lose(chunk, now);
      lostLeases += lost.length;
      if (lost.length > 0 && this.#endIfOver(batch)) ended.push(batch.asked.id);
      const { open, input, sealWithinMs } = batch.asked;
      const deadline = open || input === null ? batch.submittedAt + sealWithinMs : Infinity;
      if (batch.sealed || hasEnded(batch) || deadline > this.#clock.wallMs()) continue;
      const message = "its producer did not seal it in time";
      this.#end(batch, "expired", { code: "SEAL_DEADLINE", message });
      ended.push(batch.asked.id);
    }
    return { lostLeases, ended };
  }

  #lose(chunk: Chunk, now: number): void {
    const started = chunk.items.filter((item) => item.started);
    for (const item of started) {
      item.started = false;
      item.attempts += 1;
      // The death in bulk that came first was nobody's; it is counted with the first one's own.
      const deaths = item.deaths === 0 ? 2 : item.deaths + 1;
      item.deaths = started.length === 1 ? deaths : Math.min(deaths, 2);
      if (item.deaths < 3) continue;
      item.word = "failed";
      item.letter = {
        step: 0,
        item: chunk.start + chunk.items.indexOf(item),
        key: item.key,
        attempts: Math.max(item.attempts, 3),
        deaths: 3,
        errorClass: "permanent",
        code: "POISON",
        message: "",
        failedAt: this.#clock.wallMs(),
      };
    }
    chunk.careful = true;
    const left = chunk.items.filter(({ word }) => word === "pending");
    chunk.dueAt = Math.min(...left.map(({ dueAt }) => Math.max(now, dueAt)));
    chunk.phase = left.length > 0 ? "waiting" : "over";
  }

  claim(duty: string, worker: number, forMs: number): boolean {
    const now = this.#clock.monotonicMs();
    const held = this.#claims.get(duty);
    if (held !== undefined && held.worker !== worker && held.until > now) return false;
    this.#claims.set(duty, { worker, until: now + forMs });
    return true;
  }

  unclaim(duty: string, worker: number): void {
    if (this.#claims.get(duty)?.worker === worker) this.#claims.delete(duty);
  }
}
