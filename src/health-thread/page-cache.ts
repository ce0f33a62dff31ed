/**
 * Texts that only the main thread can make, cached by the thread that serves them. Each is made
 * once at the start, so that there is something to serve when the main thread becomes busy, and
 * later only on request: pages without readers cost a waiting worker and its store nothing. While
 * the main thread is busy the last text is served, with its age.
 */
import type { Clock } from "../ports/clock.ts";

export interface PageCacheParts {
  readonly clock: Clock;
  readonly paths: readonly string[];
  /** Asks the main thread for a text; it answers with `put` when it has time. */
  readonly ask: (path: string) => void;
  /** Whether the main thread is known to be busy: then a reader gets the last text at once. */
  readonly isBusy: () => boolean;
}

export interface CachedText {
  readonly text: string;
  readonly ageMs: number;
}

/** How long a reader waits for a fresh text. */
const FRESH_WITHIN_MS = 500;

export class PageCache {
  readonly #parts: PageCacheParts;
  readonly #texts = new Map<string, { readonly text: string; readonly madeAt: number }>();
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(parts: PageCacheParts) {
    this.#parts = parts;
    for (const path of parts.paths) this.#ask(path);
  }

  /** One request at a time: they must not pile up for a busy main thread. */
  #ask(path: string): (() => void)[] {
    const known = this.#waiting.get(path);
    if (known !== undefined) return known;
    const waiting: (() => void)[] = [];
    this.#waiting.set(path, waiting);
    this.#parts.ask(path);
    return waiting;
  }

  /** Null: it could not be made this time. */
  put(path: string, text: string | null): void {
    if (text !== null) this.#texts.set(path, { text, madeAt: this.#parts.clock.monotonicMs() });
    const waiting = this.#waiting.get(path) ?? [];
    this.#waiting.delete(path);
    for (const wake of waiting) wake();
  }

  /** Null when the main thread has never made one. */
  async read(path: string): Promise<CachedText | null> {
    const { clock, isBusy } = this.#parts;
    const waiting = this.#ask(path);
    if (!this.#texts.has(path) || !isBusy()) await this.#waitIn(waiting);
    const found = this.#texts.get(path);
    if (found === undefined) return null;
    return { text: found.text, ageMs: clock.monotonicMs() - found.madeAt };
  }

  #waitIn(waiting: (() => void)[]): Promise<void> {
    return new Promise<void>((resolve) => {
      const cancel = this.#parts.clock.after(FRESH_WITHIN_MS, () => {
        waiting.splice(waiting.indexOf(wake), 1);
        resolve();
      });
      const wake = (): void => {
        cancel();
        resolve();
      };
      waiting.push(wake);
    });
  }
}
