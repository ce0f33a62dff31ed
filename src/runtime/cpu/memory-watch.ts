/**
 * Watches the memory of a pool's processes and kills those that use too much. It also watches idle
 * ones, because something that a task left running may take more memory.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Member } from "./member.ts";
import { LOOK_MS, readResidentBytes } from "./resident-memory.ts";

const MIB = 1_048_576;
/** A member that uses more than this share after a task is replaced by a fresh one. */
const HIGH_SHARE = 0.75;

export class MemoryWatch {
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #watched = new Map<number, Member>();
  #cancel: (() => void) | null = null;

  constructor(clock: Clock, bytesMax: number) {
    this.#clock = clock;
    this.#bytesMax = bytesMax;
  }

  /** Watches a member until it ends. */
  add(member: Member): void {
    const { pid } = member;
    if (pid === null) return;
    this.#watched.set(pid, member);
    this.#cancel ??= this.#lookLater();
    void member.gone.then(() => this.#remove(pid));
  }

  #remove(pid: number): void {
    this.#watched.delete(pid);
    if (this.#watched.size > 0) return;
    this.#cancel?.();
    this.#cancel = null;
  }

  /** Whether the member should be replaced after its task. */
  async isHigh({ pid }: Member): Promise<boolean> {
    if (pid === null) return false;
    const resident = (await readResidentBytes([pid])).get(pid) ?? 0;
    return resident > this.#bytesMax * HIGH_SHARE;
  }

  #lookLater(): () => void {
    return this.#clock.after(LOOK_MS, () => {
      this.#cancel = this.#lookLater();
      void this.#look();
    });
  }

  async #look(): Promise<void> {
    for (const [pid, resident] of await readResidentBytes([...this.#watched.keys()])) {
      if (resident <= this.#bytesMax) continue;
      const held = `${Math.ceil(resident / MIB)} MiB`;
      const ceiling = `${Math.floor(this.#bytesMax / MIB)} MiB`;
      this.#watched.get(pid)?.kill(`held ${held} of memory, above its ceiling of ${ceiling}`);
    }
  }
}
