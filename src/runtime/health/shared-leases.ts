/**
 * The leases that a worker holds, in memory that it shares with the thread that renews them while
 * the worker's loop is busy. The loop enters a lease when it gets it, and removes it when the lease
 * is settled, given back or lost. The thread renews what it finds, and enters the new end.
 *
 * Places are reused. A place's version is odd while it is being written and changes with every use,
 * so the thread notices a half-read place, and the loop ignores renewals of an earlier lease in the
 * same place. A lease that the thread has read may be given back a moment later: then the fence in
 * the store refuses its renewal.
 */
import type { LeaseRef } from "../../ports/store/worker-store.ts";

const PLACES = 16_384;
const PLACE_BYTES = 128;
/** Offsets within a place. */
const VERSION = 0;
const IS_HELD = 1;
const STEP = 2;
const CHUNK = 3;
const FENCE = 4;
const ID_BYTES = 5;
const RENEWED_VERSION = 6;
const INTS_PER_PLACE = PLACE_BYTES / Int32Array.BYTES_PER_ELEMENT;
const UNTIL_AT = 32;
const ID_AT = 40;
const ID_BYTES_MAX = PLACE_BYTES - ID_AT;
/** Number of places ever used, so that readers need not check all of them. */
const HEADER_BYTES = PLACE_BYTES;

/** A lease as the thread found it. */
export interface FoundLease {
  readonly lease: LeaseRef;
  readonly place: number;
  readonly version: number;
}

/** An entered lease. */
export interface LeaseHold {
  /** Until when the thread has renewed it, on the host's monotonic clock; 0 for never. */
  readRenewedUntil(): number;
  /** The worker no longer holds it. */
  release(): void;
}

export class SharedLeases {
  readonly buffer: SharedArrayBuffer;
  readonly #used: Int32Array;
  readonly #ints: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #untils: BigInt64Array;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();
  /** Places that are free again. */
  readonly #free: number[] = [];

  constructor(buffer = new SharedArrayBuffer(HEADER_BYTES + PLACES * PLACE_BYTES)) {
    this.buffer = buffer;
    this.#used = new Int32Array(buffer, 0, 1);
    this.#ints = new Int32Array(buffer, HEADER_BYTES);
    this.#bytes = new Uint8Array(buffer, HEADER_BYTES);
    this.#untils = new BigInt64Array(buffer, HEADER_BYTES);
  }

  /** Null when there is no room: then only the loop renews it. */
  enter({ batch, step, chunk, fence }: LeaseRef): LeaseHold | null {
    const place = this.#takePlace();
    if (place === -1) return null;
    const at = place * INTS_PER_PLACE;
    Atomics.add(this.#ints, at + VERSION, 1);
    const target = this.#bytes.subarray(place * PLACE_BYTES + ID_AT, (place + 1) * PLACE_BYTES);
    const { read, written } = this.#encoder.encodeInto(batch, target);
    this.#ints[at + STEP] = step;
    this.#ints[at + CHUNK] = chunk;
    this.#ints[at + FENCE] = fence;
    this.#ints[at + ID_BYTES] = written;
    const version = Atomics.add(this.#ints, at + VERSION, 1) + 1;
    // A truncated id could be another batch's.
    Atomics.store(this.#ints, at + IS_HELD, read === batch.length ? 1 : 0);
    return this.#makeHold(place, version);
  }

  #takePlace(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const used = Atomics.load(this.#used, 0);
    if (used === PLACES) return -1;
    Atomics.store(this.#used, 0, used + 1);
    return used;
  }

  #makeHold(place: number, version: number): LeaseHold {
    const at = place * INTS_PER_PLACE;
    let isHeld = true;
    return {
      readRenewedUntil: () => {
        if (!isHeld || Atomics.load(this.#ints, at + RENEWED_VERSION) !== version) return 0;
        return Number(Atomics.load(this.#untils, findUntil(place)));
      },
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        Atomics.store(this.#ints, at + IS_HELD, 0);
        this.#free.push(place);
      },
    };
  }

  /** The number of held leases. */
  count(): number {
    let held = 0;
    const used = Atomics.load(this.#used, 0);
    for (let place = 0; place < used; place++) {
      held += Atomics.load(this.#ints, place * INTS_PER_PLACE + IS_HELD);
    }
    return held;
  }

  /** For the thread: the held leases. */
  list(): FoundLease[] {
    const found: FoundLease[] = [];
    const used = Atomics.load(this.#used, 0);
    for (let place = 0; place < used; place++) {
      const at = place * INTS_PER_PLACE;
      const version = Atomics.load(this.#ints, at + VERSION);
      if (Atomics.load(this.#ints, at + IS_HELD) !== 1 || version % 2 !== 0) continue;
      const lease = this.#readLease(place);
      if (Atomics.load(this.#ints, at + VERSION) === version) found.push({ lease, place, version });
    }
    return found;
  }

  #readLease(place: number): LeaseRef {
    const at = place * INTS_PER_PLACE;
    const idAt = place * PLACE_BYTES + ID_AT;
    const idBytes = Math.min(this.#ints[at + ID_BYTES] ?? 0, ID_BYTES_MAX);
    // A decoder does not accept shared memory.
    const batch = this.#decoder.decode(this.#bytes.slice(idAt, idAt + idBytes));
    return {
      batch,
      step: this.#ints[at + STEP] ?? 0,
      chunk: this.#ints[at + CHUNK] ?? 0,
      fence: this.#ints[at + FENCE] ?? 0,
    };
  }

  /**
   * For the thread: this lease was renewed until then. A later lease in the same place ignores it.
   */
  enterRenewal({ place, version }: FoundLease, until: number): void {
    const at = place * INTS_PER_PLACE;
    Atomics.store(this.#ints, at + RENEWED_VERSION, 0);
    Atomics.store(this.#untils, findUntil(place), BigInt(Math.floor(until)));
    Atomics.store(this.#ints, at + RENEWED_VERSION, version);
  }
}

function findUntil(place: number): number {
  return (place * PLACE_BYTES + UNTIL_AT) / BigInt64Array.BYTES_PER_ELEMENT;
}
