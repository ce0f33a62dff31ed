/**
 * Holds virtual time while something real is under way: a handler that reads a file, a source that
 * asks a server. It has a limit in real time, after which its work counts as hanging, so that its
 * time limit and its lease can expire.
 */

export class Hold {
  readonly #realMsMax: number;
  readonly #onChange: () => void;
  readonly #onHang: () => void;
  #realMs = 0;
  /** Parts of the work that wait for virtual time: for these it must move. */
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

  /**
   * The work waits for something that needs virtual time; call the returned function when that is
   * over.
   */
  suspend(): () => void {
    this.#waits++;
    this.#onChange();
    let over = false;
    return () => {
      if (over) return;
      over = true;
      this.#waits--;
      // It has moved: the work gets the whole limit again for its next wait.
      this.#realMs = 0;
    };
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#onChange();
  }
}
