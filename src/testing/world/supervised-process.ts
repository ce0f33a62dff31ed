/** A process of a world: its program, and its current life. */
import { SluiceError } from "../../core/base/errors.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { Life } from "./life.ts";
import type { SharedEngineOptions } from "../../runtime/engine/engine-options.ts";
import type { Process, Program } from "./world.ts";

export class SupervisedProcess<Result> implements Process<Result> {
  readonly name: string;
  readonly program: Program<Result>;
  readonly options: SharedEngineOptions;
  /** Whether it is restarted after its death. */
  readonly isSupervised: boolean;
  readonly #kill: (life: Life) => void;
  readonly #outcome = Promise.withResolvers<Result>();
  #life: Life | null = null;
  #lives = 0;
  #failure: { readonly error: unknown } | null = null;
  #isAwaited = false;

  constructor(
    name: string,
    program: Program<Result>,
    options: SharedEngineOptions,
    isSupervised: boolean,
    kill: (life: Life) => void,
  ) {
    this.name = name;
    this.program = program;
    this.options = options;
    this.isSupervised = isSupervised;
    this.#kill = kill;
    // A failure that is not awaited is reported at the end of the world.
    this.#outcome.promise.catch(() => undefined);
  }

  get lives(): number {
    return this.#lives;
  }

  get done(): Promise<Result> {
    this.#isAwaited = true;
    return this.#outcome.promise;
  }

  get life(): Life | null {
    return this.#life;
  }

  /** The error of its program, if its outcome was not awaited. */
  get unreportedFailure(): { readonly error: unknown } | null {
    return this.#isAwaited ? null : this.#failure;
  }

  kill(): void {
    const life = this.#life;
    if (life?.alive !== true) {
      throw new SluiceError("WRONG_STATE", `the process ${this.name} does not run now`, {
        kind: "process",
        hint: "It starts again a second after its death: await world.sleep(1_000) before the next kill.",
      });
    }
    this.#kill(life);
  }

  /** Its next life has begun. */
  begin(life: Life): void {
    this.#life = life;
    this.#lives++;
  }

  /** Runs its program to its end; the first life that reaches it decides. */
  async run(engine: Engine, life: Life): Promise<void> {
    try {
      this.#outcome.resolve(await this.program(engine, life.number));
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#outcome.reject(error);
  }
}
