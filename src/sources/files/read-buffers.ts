/**
 * Buffers that are read into again and again. A worker reads a large file piece by piece; fresh
 * memory for each would lie about until the next full collection, outside the heap that V8 watches.
 */

/** Large enough for a run of ordinary slices; a larger slice gets a buffer of its own. */
export const BUFFER_BYTES = 1 << 20;
/** Buffers kept for the next read. */
const KEPT_MAX = 3;

export class ReadBuffers {
  readonly #free: Buffer[] = [];

  /** A buffer for one read, and what each of its users calls when it is done with it. */
  take(bytes: number, users: number): { readonly buffer: Buffer; readonly release: () => void } {
    const pooled = bytes <= BUFFER_BYTES;
    const whole = (pooled ? this.#free.pop() : undefined) ?? allocate(bytes);
    let inUse = users;
    const release = (): void => {
      if (--inUse === 0 && pooled && this.#free.length < KEPT_MAX) this.#free.push(whole);
    };
    return { buffer: whole.subarray(0, bytes), release };
  }
}

function allocate(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(Math.max(bytes, BUFFER_BYTES));
}
