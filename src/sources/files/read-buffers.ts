/**
 * Reused read buffers. A worker reads a large file piece by piece; new memory for each piece would
 * stay until the next full collection, outside of the heap that V8 watches.
 */

/** Large enough for several ordinary slices; a larger slice gets its own buffer. */
export const BUFFER_BYTES = 1 << 20;
/** Buffers kept for the next read. */
const KEPT_MAX = 3;

export class ReadBuffers {
  readonly #free: Buffer[] = [];

  /** A buffer for one read, and the function that each of its users calls when done. */
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
