/** The command's stderr as JSON lines, for log collectors: no bars, no colours. */
import { redactText } from "../../core/base/redact.ts";
import { type Clock, formatInstant } from "../../ports/clock.ts";
import type { LogEntry } from "../../runtime/system/log.ts";
import { formatJson } from "../output/inert-text.ts";
import { ProgressDisplay } from "./progress-display.ts";
import type { ProgressView } from "./progress-line.ts";
import type { Screen } from "../output/screen.ts";

const PROGRESS_EVERY_MS = 5_000;
/** How deep causes of errors are written. */
const CAUSES_MAX = 5;

export class JsonLog extends ProgressDisplay {
  readonly #screen: Screen;
  readonly #clock: Clock;
  #shownAt: number;

  constructor(screen: Screen, clock: Clock) {
    super(screen, clock);
    this.#screen = screen;
    this.#clock = clock;
    this.#shownAt = clock.monotonicMs();
  }

  override show(view: ProgressView): void {
    const now = this.#clock.monotonicMs();
    if (now - this.#shownAt < PROGRESS_EVERY_MS) return;
    this.#shownAt = now;
    const { planned, pending, failed } = view.counts;
    const message = `${planned - pending} of ${planned} done, ${failed} failed`;
    this.#write({ level: "info", event: "batch.progress", message }, { planned, pending, failed });
  }

  override noteWithoutBar(text: string): void {
    this.note(text);
  }

  override note(text: string): void {
    this.#write({ level: "info", event: "note", message: text }, {});
  }

  override log(entry: LogEntry): void {
    if (entry.level !== "debug") this.#write(entry, {});
  }

  override clear(): void {
    // There is no bar.
  }

  #write(entry: LogEntry, facts: Readonly<Record<string, number>>): void {
    this.#screen.line(formatLogLine(entry, this.#clock.wallMs(), facts));
  }
}

/** One line; also for errors that end a command, when there is no display yet. */
export function formatLogLine(
  { level, event, message, error, ...ids }: LogEntry,
  wallMs: number,
  facts: Readonly<Record<string, unknown>> = {},
): string {
  const head = { time: formatInstant(wallMs), level, event, message: redactText(message) };
  const cause = error === undefined ? {} : { error: describeCause(error, 0) };
  return formatJson({ ...head, ...ids, ...facts, ...cause });
}

function describeCause(error: unknown, depth: number): unknown {
  if (!(error instanceof Error)) return redactText(String(error));
  const { name, message, stack, cause } = error;
  const code = (error as { readonly code?: unknown }).code;
  return {
    name,
    ...(typeof code === "string" ? { code } : {}),
    message: redactText(message),
    ...(stack === undefined ? {} : { stack: redactText(stack) }),
    ...(cause === undefined || depth >= CAUSES_MAX
      ? {}
      : { cause: describeCause(cause, depth + 1) }),
  };
}
