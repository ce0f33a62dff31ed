/**
 * How many handlers this process may run at once where all workers share a cap: of a batch, of a
 * lane, of a pipeline. A permit lasts as long as a lease, and is checked before each start.
 */
import { nameCapScope } from "../../core/limits/caps.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Permit, Permits } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";

const LANES = nameCapScope("lane", "");
const NOTHING: readonly Permit[] = [];

interface Held {
  /** What the store permits, less what is being released. */
  readonly slots: number;
  /** On this process's monotonic clock. */
  readonly until: number;
  readonly pipeline: string;
  /** Handlers that run in the scope, or for which room is reserved. */
  active: number;
}

/** A user of permits: it runs handlers. */
export interface PermitUser {
  readonly pipeline: string;
  /** How many handlers it would run at once. */
  countSlots(): number;
  /** It never runs more than this. */
  readonly slotsMax: number;
  listRuns(): readonly ChunkRun[];
  /** An item may start that could not before. */
  onRoom(): void;
}

/** A request to the store that is under way. */
export interface PermitQuestion {
  /** Rises with each request of this process. */
  readonly number: number;
  readonly askedAt: number;
  /** What is needed, where that is less than what was held: the rest is released with the request. */
  readonly keeps: readonly Permit[];
}

export class SlotPermits {
  readonly #clock: Clock;
  /** The newest answer of the store, by its number. */
  #answer: { readonly permits: Permits; readonly askedAt: number };
  #asked = 0;
  /**
   * Requests that release slots and have no answer yet: other workers may have these slots already.
   * After a failure the number of the last request until then: an answer to a later one tells what
   * became of it.
   */
  readonly #releasing = new Map<PermitQuestion, { failedAt: number | null }>();
  readonly #held = new Map<string, Held>();
  readonly #users = new Set<PermitUser>();
  /** Runs that were stuck at the last check. */
  #stuck: ReadonlySet<ChunkRun> = new Set();
  /** Handlers of guarded runs that are about to start. */
  readonly #reserved = new Map<ChunkRun, number>();
  /** The permits of the scopes that were checked last: items of one chunk come together. */
  #lastScopes: readonly string[] | null = null;
  #lastHeld: readonly Held[] = [];
  /**
   * In each scope more slots are held than all users together could fill: until they expire,
   * running handlers need not be counted.
   */
  #capNotBinding = false;
  #roomyUntil = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#answer = { permits: { seq: 0, held: [] }, askedAt: clock.monotonicMs() };
  }

  join(user: PermitUser): () => void {
    this.#users.add(user);
    this.#recount();
    return () => {
      this.#users.delete(user);
      this.#recount();
    };
  }

  /** Whether anything is capped: without a cap nothing is counted. */
  get areNeeded(): boolean {
    return this.#held.size > 0;
  }

  /**
   * Before a request about a pipeline, after which `close` must follow; or with null before one that
   * releases nothing. Permits that are not needed are released with the request, as another worker may get
   * them before the answer arrives.
   */
  ask(pipeline: string | null): PermitQuestion {
    const keeps = pipeline === null ? NOTHING : this.#listKeeps(pipeline);
    const question = { number: ++this.#asked, askedAt: this.#clock.monotonicMs(), keeps };
    if (keeps.length > 0) {
      this.#releasing.set(question, { failedAt: null });
      this.#apply();
    }
    return question;
  }

  /** The request is over. Without an answer it is not known whether the store has applied it. */
  close(question: PermitQuestion): void {
    const releasing = this.#releasing.get(question);
    if (releasing !== undefined) releasing.failedAt = this.#asked;
  }

  /** The request is open until its answer has been handled. */
  async duringRequest<T>(
    pipeline: string | null,
    act: (question: PermitQuestion) => Promise<T>,
  ): Promise<T> {
    const question = this.ask(pipeline);
    try {
      return await act(question);
    } finally {
      this.close(question);
    }
  }

  /** What the store permits. Of concurrent requests the answer that was committed last counts. */
  grant(question: PermitQuestion, permits: Permits): void {
    const hadReleased = this.#forgetReleased(question);
    // A worker that the store does not know has no order.
    const isOlder = permits.seq > 0 && permits.seq < this.#answer.permits.seq;
    if (isOlder && !hadReleased) return;
    if (!isOlder) this.#answer = { permits, askedAt: question.askedAt };
    if (this.#answer.permits.held.length === 0 && this.#held.size === 0) return;
    this.#apply();
    for (const user of this.#users) user.onRoom();
  }

  /** What this request, and those that had failed before it, released is in the newest answer. */
  #forgetReleased(question: PermitQuestion): boolean {
    let forgot = this.#releasing.delete(question);
    for (const [other, { failedAt }] of this.#releasing) {
      if (failedAt === null || failedAt >= question.number) continue;
      this.#releasing.delete(other);
      forgot = true;
    }
    return forgot;
  }

  #apply(): void {
    const { permits, askedAt } = this.#answer;
    this.#held.clear();
    for (const { scope, slots, pipeline, forMs } of permits.held) {
      this.#held.set(scope, { slots, pipeline, until: askedAt + forMs, active: 0 });
    }
    for (const { keeps } of this.#releasing.keys()) {
      for (const { scope, slots } of keeps) {
        const held = this.#held.get(scope);
        if (held !== undefined && held.slots > slots) this.#held.set(scope, { ...held, slots });
      }
    }
    this.#recount();
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

  /** The same for the run with the most room. */
  countRoomOfAny(runs: readonly ChunkRun[], now: number): number {
    if (!this.areNeeded) return Number.POSITIVE_INFINITY;
    return Math.max(0, ...runs.map((run) => (run.lost ? 0 : this.countRoom(run, now))));
  }

  /**
   * Runs that have room below one of their caps and none below another, now and at the last check:
   * another worker may hold the reverse, and neither would ever release its permits. Checked after
   * each renewal, because renewals also move permits between workers.
   */
  findDeadlocked(): ReadonlySet<ChunkRun> {
    const before = this.#stuck;
    const runs = [...this.#users].flatMap((user) => user.listRuns());
    this.#stuck = new Set(runs.filter((run) => this.#isStuck(run)));
    return new Set([...this.#stuck].filter((run) => before.has(run)));
  }

  #isStuck(run: ChunkRun): boolean {
    // A guarded run waits by itself.
    if (run.lost || run.finished || run.inFlight > 0 || run.lease.guarded) return false;
    const held = this.#listHeld(run.facts.scopes);
    return held.some(({ slots }) => slots === 0) && held.some((one) => one.slots > one.active);
  }

  /** Reserves room for handlers of the run that will start soon, and returns for how many. */
  reserve(run: ChunkRun, wanted: number, now: number): number {
    const room = Math.min(wanted, this.countRoom(run, now));
    if (room === 0) return 0;
    this.#reserved.set(run, room);
    for (const held of this.#listHeld(run.facts.scopes)) held.active += room;
    return room;
  }

  /**
   * Whether a handler with a reservation may start: the permit may have been taken away meanwhile.
   */
  mayStartReserved({ facts }: ChunkRun, now: number): boolean {
    return this.#listHeld(facts.scopes).every(
      ({ slots, until, active }) => now < until && active <= slots,
    );
  }

  /** Releases the unused reservation of the run. */
  release(run: ChunkRun): void {
    if (!this.#reserved.delete(run)) return;
    this.#recount();
    this.#tell();
  }

  /** A handler of the run starts. */
  start(run: ChunkRun): void {
    // Called for every item, and usually nothing is reserved.
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

  /** Permits have changed: handlers that are already running count in each scope from now on. */
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

  /**
   * The most handlers of this process that may ever run in a scope at once; pipelines share lanes.
   */
  #countSlotsMax(scope: string, { pipeline }: Held): number {
    let slots = 0;
    for (const user of this.#users) {
      const isMeant = user.pipeline === pipeline || scope.startsWith(LANES);
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

/** The handlers that a user runs in a scope, and those that it would start. */
function countNeeded(user: PermitUser, scope: string): number {
  let running = 0;
  let startable = 0;
  for (const run of user.listRuns()) {
    const { scopes } = run.facts;
    // A chunk that is not read yet may belong to any lane.
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
