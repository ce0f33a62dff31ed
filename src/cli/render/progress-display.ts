/**
 * Shows progress on stderr: on a terminal one line that is drawn over, elsewhere a plain line every
 * few seconds. Other lines go through it as well, so that they do not tear the bar.
 */
import type { Clock } from "../../ports/clock.ts";
import { EVENTS_FOR_MACHINES, type LogEntry } from "../../runtime/system/log.ts";
import { makeInert } from "../output/inert-text.ts";
import { describeProgress, type ProgressView, renderProgress } from "./progress-line.ts";
import type { Screen } from "../output/screen.ts";

/** At most ten times a second. */
export const DRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 5_000;
/** A message that comes again and again is shown once in this time. */
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

  /** A line of its own where no bar says the same. */
  tell(text: string): void {
    if (!this.#screen.isTerminal) this.#screen.line(makeInert(text));
  }

  /** A line of its own. */
  note(text: string): void {
    const drawn = this.#drawn;
    this.clear();
    this.#screen.line(text);
    if (drawn !== "") this.#draw(drawn);
  }

  /** What the engine has to say. */
  log({ level, event, message, error }: LogEntry): void {
    if (level === "debug" || EVENTS_FOR_MACHINES.has(event)) return;
    // How the engine ends is the command's to report.
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

  /** Where it came from: once for many items that fail at the same place. */
  #showStack(stack: string): void {
    const [, ...frames] = stack.split("\n    at ");
    // Where it was thrown: who called differs with the moment, as handlers are called from many places.
    const [place = ""] = frames;
    const now = this.#clock.monotonicMs();
    if (place === this.#lastPlace.place && now - this.#lastPlace.at < REPEAT_EVERY_MS) return;
    this.#lastPlace = { place, at: now };
    for (const frame of frames) this.note(this.#screen.colours.dim(`  at ${makeInert(frame)}`));
  }

  /** Takes the bar away, so that something else can be written. */
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
