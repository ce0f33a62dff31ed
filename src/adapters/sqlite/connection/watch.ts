/**
 * Wake-ups. Commits of this connection are reported at once; those of other processes show in
 * SQLite's `data_version`, which costs about a microsecond to read and is read only while there are
 * watchers.
 */
import type { StatementSync } from "node:sqlite";
import type { Clock } from "../../../ports/clock.ts";
import type { Connection } from "./connection.ts";

const LOOK_EVERY_MS = 20;

export class ChangeWatch {
  readonly #clock: Clock;
  readonly #dataVersion: StatementSync;
  readonly #watchers = new Set<() => void>();
  readonly #stopListening: () => void;
  #seen = -1;
  #cancelTimer: (() => void) | null = null;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    this.#dataVersion = connection.prepare("PRAGMA data_version");
    this.#stopListening = connection.onCommit(() => this.#notifyWatchers());
  }

  watch(onChange: () => void): () => void {
    // Each call is its own subscription, also when the same function watches twice.
    const watcher = (): void => onChange();
    this.#watchers.add(watcher);
    if (this.#cancelTimer === null) {
      this.#seen = this.#readVersion();
      this.#schedule();
    }
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#stopPolling();
    };
  }

  stop(): void {
    this.#watchers.clear();
    this.#stopPolling();
    this.#stopListening();
  }

  #schedule(): void {
    this.#cancelTimer = this.#clock.after(LOOK_EVERY_MS, () => {
      this.#schedule();
      const version = this.#readVersion();
      if (version === this.#seen) return;
      this.#seen = version;
      this.#notifyWatchers();
    });
  }

  #stopPolling(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  /**
   * A read may fail for a moment, as while another process recovers the file: that counts as no
   * change.
   */
  #readVersion(): number {
    try {
      return (this.#dataVersion.get() as { data_version: number }).data_version;
    } catch {
      return this.#seen;
    }
  }

  #notifyWatchers(): void {
    for (const watcher of this.#watchers) watcher();
  }
}
