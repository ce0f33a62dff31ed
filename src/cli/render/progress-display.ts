/**
 * Shows progress on stderr: on a terminal one line that is overwritten, elsewhere a plain line
 * every few seconds. Other lines go through it as well, so that they do not break the bar.
 */
import type { Clock } from "../../ports/clock.ts";
import { EVENTS_FOR_MACHINES, type LogEntry } from "../../runtime/system/log.ts";
import { makeInert } from "../output/inert-text.ts";
import { describeProgress, type ProgressView, renderProgress } from "./progress-line.ts";
import type { Screen } from "../output/screen.ts";

/** At most ten times a second. */
export const DRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 5_000;
/** A repeated message is shown once within this time. */
const REPEAT_EVERY_MS = 10_000;
/** Events of unclassified errors. */
const UNEXPECTED = /\.unexpected_error$/u;
const CLEAR_LINE = "\r\u001b[K";

export class ProgressDisplay {
  readonly #screen: Screen;
  readonly #clock: Clock;
  #drawn = "";
  #shownAt: number;
  #lastEntry = { message: "", at: 0 };
  #lastPlace = { place: "", at: 0 };

  constructor(screen: Screen, clock: Clock) {
    this.#screen = screen;
    this.#clock = clock;
    this.#shownAt = clock.monotonicMs();
  }

  show(view: ProgressView): void {
    const now = this.#clock.monotonicMs();
    if (this.#screen.isTerminal) {
      this.#draw(renderProgress(view, this.#screen));
    } else if (now - this.#shownAt >= LINE_EVERY_MS) {
      this.#screen.line(describeProgress(view));
      this.#shownAt = now;
    }
  }

  /** A separate line, if no bar shows the same. */
  noteWithoutBar(text: string): void {
    if (!this.#screen.isTerminal) this.#screen.line(makeInert(text));
  }

  /** A line of its own. */
  note(text: string): void {
    const drawn = this.#drawn;
    this.clear();
    this.#screen.line(text);
    if (drawn !== "") this.#draw(drawn);
  }

  /** The engine's log. */
  log({ level, event, message, error }: LogEntry): void {
    if (level === "debug" || EVENTS_FOR_MACHINES.has(event)) return;
    // The command reports how the engine ends.
    if (event === "engine.failed") return;
    const now = this.#clock.monotonicMs();
    const last = this.#lastEntry;
    if (last.message === message && now - last.at < REPEAT_EVERY_MS) return;
    this.#lastEntry = { message, at: now };
    const { colours } = this.#screen;
    const paint = { info: colours.dim, warn: colours.yellow, error: colours.red }[level];
    this.note(`${paint(level)}: ${makeInert(message)}`);
    if (UNEXPECTED.test(event) && error instanceof Error) this.#showStack(error.stack ?? "");
  }

  /** The place of the error: shown once for many items that fail at the same place. */
  #showStack(stack: string): void {
    const [, ...frames] = stack.split("\n    at ");
    // Where it was thrown. The callers vary, as handlers are called from many places.
    const [place = ""] = frames;
    const now = this.#clock.monotonicMs();
    if (place === this.#lastPlace.place && now - this.#lastPlace.at < REPEAT_EVERY_MS) return;
    this.#lastPlace = { place, at: now };
    for (const frame of frames) this.note(this.#screen.colours.dim(`  at ${makeInert(frame)}`));
  }

  /** Removes the bar, so that something else can be written. */
  clear(): void {
    if (this.#drawn === "") return;
    this.#screen.draw(CLEAR_LINE);
    this.#drawn = "";
  }

  #draw(text: string): void {
    this.#screen.draw(CLEAR_LINE + text);
    this.#drawn = text;
  }
}
