/**
 * Keeps virtual time where it is while something real is under way: a handler that reads a file, a
 * source that asks a server. It has a bound in real time, after which whoever holds it counts as
 * hanging, so that its time limit and its lease can run out.
 */

export class Hold {
  readonly #realMsMax: number;
  readonly #onChange: () => void;
  readonly #onHang: () => void;
  #realMs = 0;
  /** Waits for virtual time within the work: for these it must move. */
  #waits = 0;
  #released = false;

  constructor(realMsMax: number, onChange: () => void, onHang: () => void = () => undefined) {
    this.#realMsMax = realMsMax;
    this.#onChange = onChange;
    this.#onHang = onHang;
  }

  get isOn(): boolean {
    return !this.#released && this.#waits === 0 && this.#realMs < this.#realMsMax;
  }

  get isReleased(): boolean {
    return this.#released;
  }

  noteRealMs(realMs: number): void {
    if (!this.isOn) return;
    this.#realMs += realMs;
    if (!this.isOn) this.#onHang();
  }

  /** The work waits for something that needs virtual time; call what is returned when that is over. */
  suspend(): () => void {
    this.#waits++;
    this.#onChange();
    let over = false;
    return () => {
      if (over) return;
      over = true;
      this.#waits--;
      // It has moved: whatever it does next gets its whole time.
      this.#realMs = 0;
    };
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#onChange();
  }
}
