/**
 * How many handlers this process may run at once where a cap is shared by all workers: of a batch,
 * of a lane, of a pipeline. What the store permitted lasts as long as a lease, and is asked about
 * before each start.
 */
import { nameCapScope } from "../../core/limits/caps.ts";
import type { Permit } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";

const LANES = nameCapScope("lane", "");

interface Held {
  readonly slots: number;
  /** By this process's monotonic clock. */
  readonly until: number;
  readonly pipeline: string;
  /** Handlers that run in the scope, or for which room is kept. */
  active: number;
}

/** Somebody who runs handlers. */
export interface PermitUser {
  readonly pipeline: string;
  /** Handlers that it would run at once. */
  countSlots(): number;
  /** It never runs more. */
  readonly slotsMax: number;
  listRuns(): readonly ChunkRun[];
  /** Something may start that could not before. */
  onRoom(): void;
}

/**
 * The store is being asked. What it answers to two questions at once may have become so in either
 * order: then only what both of them permit is certain.
 */
export class PermitQuestion {
  /** Those of one pipeline; null for all. */
  readonly pipeline: string | null;
  /** What is needed, where that is less than what was held. */
  readonly keeps: readonly Permit[];
  /** Another question was under way at the same time. */
  isShared = false;

  constructor(pipeline: string | null, keeps: readonly Permit[]) {
    this.pipeline = pipeline;
    this.keeps = keeps;
  }
}

export class SlotPermits {
  readonly #held = new Map<string, Held>();
  readonly #users = new Set<PermitUser>();
  readonly #questions = new Set<PermitQuestion>();
  /** Those that were found stuck by the last look. */
  #stuck: ReadonlySet<ChunkRun> = new Set();
  /** Handlers of guarded runs that are about to start. */
  readonly #reserved = new Map<ChunkRun, number>();
  /** About which questions at once were answered differently: there may be more than is held. */
  readonly #doubtful = new Set<string>();
  readonly #onDoubt: () => Promise<void>;
  /** A doubt is being settled, which only an answer can do that no other one comes beside. */
  #settling: Promise<void> | null = null;
  /** What is held of the scopes that were asked about last: items of one chunk come together. */
  #lastScopes: readonly string[] | null = null;
  #lastHeld: readonly Held[] = [];
  /**
   * Of each scope so many slots are held that all users together could not fill them: until they run
   * out nobody needs to be counted.
   */
  #capNotBinding = false;
  #roomyUntil = 0;

  /** `onDoubt`: the store is to be asked about all permits once more; done when it was. */
  constructor(onDoubt: () => Promise<void>) {
    this.#onDoubt = onDoubt;
  }

  join(user: PermitUser): () => void {
    this.#users.add(user);
    this.#recount();
    return () => {
      this.#users.delete(user);
      this.#recount();
    };
  }

  /** Whether anything is capped: nobody pays for what there is not. */
  get areNeeded(): boolean {
    return this.#held.size > 0;
  }

  /**
   * Before the store is asked about a pipeline; `close` follows in any case. What is not needed any
   * more is given up with the question, as somebody else may have it before the answer is here.
   */
  ask(pipeline: string): PermitQuestion {
    const keeps = this.#listKeeps(pipeline);
    for (const { scope, slots } of keeps) {
      const held = this.#held.get(scope);
      if (held !== undefined) this.#held.set(scope, { ...held, slots });
    }
    if (keeps.length > 0) this.#recount();
    return this.#open(new PermitQuestion(pipeline, keeps));
  }

  /** The same, before a renewal: it is about all permits, and gives none up. */
  askAll(): PermitQuestion {
    return this.#open(new PermitQuestion(null, []));
  }

  #open(question: PermitQuestion): PermitQuestion {
    if (this.#questions.size > 0) {
      question.isShared = true;
      for (const other of this.#questions) other.isShared = true;
    }
    this.#questions.add(question);
    return question;
  }

  close(question: PermitQuestion): void {
    this.#questions.delete(question);
    if (this.#questions.size > 0 || this.#doubtful.size === 0) return;
    const isMissed = [...this.#doubtful].some(
      (scope) => this.#countNeeded(scope) > (this.#held.get(scope)?.slots ?? 0),
    );
    this.#doubtful.clear();
    if (isMissed) this.#settle();
  }

  /**
   * The answer changes the store, of which those who wait for work are told at once: whatever they
   * would ask beside it would be the next doubt, and so on for ever.
   */
  #settle(): void {
    const settling = this.#onDoubt()
      .catch(() => {})
      .finally(() => {
        if (this.#settling === settling) this.#settling = null;
      });
    this.#settling = settling;
  }

  /** The question is open until all is done with its answer. */
  async whileAsking<T>(
    pipeline: string | null,
    act: (question: PermitQuestion) => Promise<T>,
  ): Promise<T> {
    if (pipeline !== null) while (this.#settling !== null) await this.#settling;
    const question = pipeline === null ? this.askAll() : this.ask(pipeline);
    try {
      return await act(question);
    } finally {
      this.close(question);
    }
  }

  /**
   * What the store permits from now on, and nothing else where it was asked about. `until` is null
   * where nothing was leased: then permits last as long as they did.
   */
  grant(question: PermitQuestion, permits: readonly Permit[], until: number | null): void {
    if (permits.length === 0 && this.#held.size === 0) return;
    const { pipeline, isShared } = question;
    if (isShared) return this.add(permits, pipeline, until);
    const named = new Set(permits.map(({ scope }) => scope));
    for (const [scope, held] of this.#held) {
      const isMeant = pipeline === null || held.pipeline === pipeline;
      if (isMeant && !named.has(scope)) this.#held.delete(scope);
    }
    for (const { scope, slots } of permits) this.#hold(scope, slots, pipeline, until);
    this.#recount();
    this.#tell();
  }

  /** What was permitted beside other questions, with which it must agree. */
  add(permits: readonly Permit[], pipeline: string | null, until: number | null): void {
    if (permits.length === 0) return;
    for (const question of this.#questions) question.isShared = true;
    for (const { scope, slots } of permits) {
      const held = this.#held.get(scope)?.slots ?? slots;
      if (held !== slots) this.#doubtful.add(scope);
      this.#hold(scope, Math.min(held, slots), pipeline, until);
    }
    this.#recount();
    this.#tell();
  }

  #hold(scope: string, slots: number, pipeline: string | null, until: number | null): void {
    const held = this.#held.get(scope);
    this.#held.set(scope, {
      slots,
      until: Math.max(held?.until ?? 0, until ?? 0),
      pipeline: pipeline ?? held?.pipeline ?? this.#findPipeline(scope),
      active: 0,
    });
  }

  /** A cap that somebody has set meanwhile. */
  #findPipeline(scope: string): string {
    for (const user of this.#users) {
      if (user.listRuns().some(({ facts }) => facts.scopes.includes(scope))) return user.pipeline;
    }
    return "";
  }

  mayStart(run: ChunkRun, now: number): boolean {
    return this.countRoom(run, now) > 0;
  }

  /** How many handlers of the run could start now. */
  countRoom({ facts }: ChunkRun, now: number): number {
    if (this.#capNotBinding && now < this.#roomyUntil) return Number.POSITIVE_INFINITY;
    let room = Number.POSITIVE_INFINITY;
    for (const held of this.#listHeld(facts.scopes)) {
      room = Math.min(room, now < held.until ? held.slots - held.active : 0);
    }
    return Math.max(0, room);
  }

  /** The same for that of the runs which has the most. */
  countRoomOfAny(runs: readonly ChunkRun[], now: number): number {
    if (!this.areNeeded) return Number.POSITIVE_INFINITY;
    return Math.max(0, ...runs.map((run) => (run.lost ? 0 : this.countRoom(run, now))));
  }

  /**
   * Runs that have room below one of their caps and none below another, as they had at the look before:
   * the other worker may hold just the reverse, and neither would ever let go. Looked for after each
   * renewal, by which permits change hands otherwise.
   */
  findDeadlocked(): ReadonlySet<ChunkRun> {
    const before = this.#stuck;
    const runs = [...this.#users].flatMap((user) => user.listRuns());
    this.#stuck = new Set(runs.filter((run) => this.#isStuck(run)));
    return new Set([...this.#stuck].filter((run) => before.has(run)));
  }

  #isStuck(run: ChunkRun): boolean {
    // A guarded run looks after itself.
    if (run.lost || run.finished || run.inFlight > 0 || run.lease.guarded) return false;
    const held = this.#listHeld(run.facts.scopes);
    return held.some(({ slots }) => slots === 0) && held.some((one) => one.slots > one.active);
  }

  /** Keeps room for handlers of the run that are to start soon, and says for how many there is. */
  reserve(run: ChunkRun, wanted: number, now: number): number {
    const room = Math.min(wanted, this.countRoom(run, now));
    if (room === 0) return 0;
    this.#reserved.set(run, room);
    for (const held of this.#listHeld(run.facts.scopes)) held.active += room;
    return room;
  }

  /** Whether one of those for which room was kept may start: it may have been taken away meanwhile. */
  mayStartReserved({ facts }: ChunkRun, now: number): boolean {
    return this.#listHeld(facts.scopes).every(
      ({ slots, until, active }) => now < until && active <= slots,
    );
  }

  /** Whatever was kept for the run and not used. */
  release(run: ChunkRun): void {
    if (!this.#reserved.delete(run)) return;
    this.#recount();
    this.#tell();
  }

  /** A handler of the run starts. */
  start(run: ChunkRun): void {
    // Asked for every item, and mostly nothing is reserved.
    const reserved = this.#reserved.size === 0 ? 0 : (this.#reserved.get(run) ?? 0);
    if (reserved > 0) this.#reserved.set(run, reserved - 1);
    else if (!this.#capNotBinding)
      for (const held of this.#listHeld(run.facts.scopes)) held.active++;
  }

  end({ facts }: ChunkRun): void {
    if (this.#capNotBinding) return;
    let wasFull = false;
    for (const held of this.#listHeld(facts.scopes)) {
      if (held.active >= held.slots) wasFull = true;
      held.active = Math.max(0, held.active - 1);
    }
    if (wasFull) this.#tell();
  }

  #listHeld(scopes: readonly string[]): readonly Held[] {
    if (scopes !== this.#lastScopes) {
      this.#lastScopes = scopes;
      this.#lastHeld = scopes.flatMap((scope) => this.#held.get(scope) ?? []);
    }
    return this.#lastHeld;
  }

  /** What is held has changed: what runs already counts in each scope from now on. */
  #recount(): void {
    this.#lastScopes = null;
    this.#capNotBinding = true;
    this.#roomyUntil = Number.POSITIVE_INFINITY;
    for (const [scope, held] of this.#held) {
      held.active = 0;
      if (held.slots < this.#countSlotsMax(scope, held)) this.#capNotBinding = false;
      this.#roomyUntil = Math.min(this.#roomyUntil, held.until);
    }
    const count = ({ facts }: ChunkRun, handlers: number): void => {
      if (handlers === 0) return;
      for (const held of this.#listHeld(facts.scopes)) held.active += handlers;
    };
    for (const user of this.#users) for (const run of user.listRuns()) count(run, run.inFlight);
    for (const [run, slots] of this.#reserved) count(run, slots);
  }

  /** The handlers of this process that may ever run in a scope at once; pipelines share lanes. */
  #countSlotsMax(scope: string, { pipeline }: Held): number {
    let slots = 0;
    for (const user of this.#users) {
      const isMeant = pipeline === "" || user.pipeline === pipeline || scope.startsWith(LANES);
      if (isMeant) slots += user.slotsMax;
    }
    return slots;
  }

  /** What is needed of the scopes of a pipeline, where that is less than what is held. */
  #listKeeps(pipeline: string): Permit[] {
    return [...this.#held].flatMap(([scope, held]) => {
      if (held.pipeline !== pipeline) return [];
      const needed = this.#countNeeded(scope);
      return needed < held.slots ? [{ scope, slots: needed }] : [];
    });
  }

  #countNeeded(scope: string): number {
    let needed = 0;
    for (const user of this.#users) needed += countNeeded(user, scope);
    return needed;
  }

  #tell(): void {
    for (const user of this.#users) user.onRoom();
  }
}

/** The handlers that somebody runs in a scope, and those that it would start. */
function countNeeded(user: PermitUser, scope: string): number {
  let running = 0;
  let startable = 0;
  for (const run of user.listRuns()) {
    const { scopes } = run.facts;
    // What is not read yet may be of any lane.
    if (scopes.length > 0 && !scopes.includes(scope)) continue;
    running += run.inFlight;
    // A guarded run has taken all of its items, and starts them later.
    if (!run.lost) startable += run.lease.guarded ? run.count : run.unstarted + run.waiting;
  }
  return Math.max(running, Math.min(user.countSlots(), running + startable));
}

/** The scopes of a chunk's items, named once for all of them. */
export function nameScopes(batch: string, lane: string, pipeline: string): readonly string[] {
  return [
    nameCapScope("batch", batch),
    nameCapScope("lane", lane),
    nameCapScope("pipeline", pipeline),
  ];
}
