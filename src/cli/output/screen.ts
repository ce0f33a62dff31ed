/**
 * An output stream as the commands see it: whether it is a terminal, its colours and width, and
 * writes that wait for a slow reader. A reader that went away (`| head`) is not an error: later
 * output is dropped, and commands that stream check `closed` and stop.
 */
import tty from "node:tty";
import pc from "picocolors";
import { makeConceal, type Redact } from "../../core/base/redact.ts";

export type Colours = ReturnType<typeof pc.createColors>;

const COLUMNS_UNKNOWN = 80;

export class Screen {
  readonly isTerminal: boolean;
  readonly colours: Colours;
  /** Whether bars and marks may use more than ASCII. */
  readonly unicode: boolean;
  readonly #stream: NodeJS.WriteStream;
  #conceal: Redact | null = null;
  readonly #secrets = new Set<string>();
  #closed = false;
  #failure: Error | null = null;
  #wakeWaiting: (() => void) | null = null;

  constructor(
    stream: NodeJS.WriteStream & { fd: number },
    env: NodeJS.ProcessEnv,
    noColour: boolean,
  ) {
    this.#stream = stream;
    this.isTerminal = tty.isatty(stream.fd) && env["TERM"] !== "dumb";
    this.colours = pc.createColors(!noColour && wantsColours(env, this.isTerminal));
    // The console of the Linux kernel has few characters; all other current terminals have these.
    this.unicode = this.isTerminal && env["TERM"] !== "linux";
    stream.on("error", (error: NodeJS.ErrnoException) => this.#fail(error));
    stream.on("drain", () => this.#wake());
  }

  get columns(): number {
    return this.isTerminal ? this.#stream.columns || COLUMNS_UNKNOWN : Infinity;
  }

  /** The reader is gone. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Why writing failed, unless the reader just went away. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** Removes these texts from all later output. */
  hide(secrets: readonly string[]): void {
    for (const secret of secrets) this.#secrets.add(secret);
    this.#conceal = makeConceal([...this.#secrets]);
  }

  /** The text as this screen writes it: without secrets. */
  conceal(text: string): string {
    return this.#conceal === null ? text : this.#conceal(text);
  }

  line(text = ""): void {
    this.#put(`${text}\n`);
  }

  /** No line end: for what is drawn over. */
  draw(text: string): void {
    this.#put(text);
  }

  /** Resolves when the reader has room for more. */
  async write(text: string): Promise<void> {
    if (this.#put(text)) return;
    await new Promise<void>((resolve) => {
      this.#wakeWaiting = resolve;
    });
  }

  /** Resolves when everything has left this process. */
  async flush(): Promise<void> {
    if (this.#closed) return;
    await new Promise<void>((resolve) => {
      this.#stream.write("", () => resolve());
    });
  }

  #put(text: string): boolean {
    if (this.#closed) return true;
    try {
      return this.#stream.write(this.conceal(text)) || this.#closed;
    } catch (error) {
      this.#fail(error as NodeJS.ErrnoException);
      return true;
    }
  }

  #fail(error: NodeJS.ErrnoException): void {
    this.#closed = true;
    if (error.code !== "EPIPE") this.#failure ??= error;
    this.#wake();
  }

  #wake(): void {
    this.#wakeWaiting?.();
    this.#wakeWaiting = null;
  }
}

function wantsColours(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  if (env["NO_COLOR"] !== undefined && env["NO_COLOR"] !== "") return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return isTerminal;
}
