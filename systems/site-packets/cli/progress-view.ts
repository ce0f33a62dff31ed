/**
 * Shows the progress of each site: on a terminal one line per site that is redrawn in place;
 * elsewhere one line for all of them from time to time, as in a log.
 */
import { errColours } from "./colours.ts";
import type { SiteProgress } from "../ingest.ts";

const BAR_WIDTH = 24;
const PLAIN_EVERY_MS = 5_000;
/** Lines of the terminal that stay free for output above and below. */
const ROWS_SPARED = 4;
/**
 * A line that is too long is cut: if it wrapped, the position of the first line would be unknown.
 */
const WRAP_OFF = "\u001B[?7l";
const WRAP_ON = "\u001B[?7h";

export interface Screen {
  readonly isTTY?: boolean;
  readonly rows?: number;
  write(text: string): unknown;
}

export class ProgressView {
  readonly #screen: Screen;
  #drawn = 0;
  #toldAt = Number.NEGATIVE_INFINITY;
  #endTold = false;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  show(sites: readonly SiteProgress[]): void {
    if (this.#screen.isTTY === true) return this.#redraw(sites);
    const now = performance.now();
    const ended = sites.every((site) => site.ended);
    if (ended ? this.#endTold : now - this.#toldAt < PLAIN_EVERY_MS) return;
    this.#toldAt = now;
    this.#endTold = ended;
    this.#screen.write(`${describeAll(sites)}\n`);
  }

  #redraw(sites: readonly SiteProgress[]): void {
    const width = Math.max(...sites.map(({ site }) => site.length));
    // If there are more sites than fit, the busy ones.
    const room = Math.max(1, (this.#screen.rows ?? 24) - ROWS_SPARED);
    const shown = sites.length <= room ? sites : sites.filter(({ ended }) => !ended).slice(0, room);
    const lines = [...shown.map((site) => describeSite(site, width)), describeAll(sites)];
    const up = this.#drawn === 0 ? "" : `\u001B[${this.#drawn}A`;
    this.#screen.write(`${up}\u001B[0J${WRAP_OFF}${lines.join("\n")}${WRAP_ON}\n`);
    this.#drawn = lines.length;
  }
}

function countDone({ archived, deduped, rejected }: SiteProgress): number {
  return archived + deduped + rejected;
}

export function describeSite(progress: SiteProgress, width: number): string {
  const { site, entries, received, archived, deduped, rejected, ended } = progress;
  const done = countDone(progress);
  const measure = (of: number): number =>
    of >= entries ? BAR_WIDTH : Math.floor((BAR_WIDTH * of) / entries);
  const full = measure(done);
  // A received document is half done, unless it was rejected.
  const half = Math.max(full, measure(received + rejected));
  const bar = "█".repeat(full) + "▒".repeat(half - full) + "░".repeat(BAR_WIDTH - half);
  const { green, yellow, dim } = errColours;
  return [
    site.padEnd(width),
    ended ? green(bar) : bar,
    `${String(done).padStart(4)} of ${String(entries).padEnd(4)}`,
    `${String(archived).padStart(4)} archived`,
    dim(`${String(deduped).padStart(3)} repeated`),
    (rejected > 0 ? yellow : dim)(`${String(rejected).padStart(3)} rejected`),
  ].join("  ");
}

export function describeAll(sites: readonly SiteProgress[]): string {
  const sum = (of: (site: SiteProgress) => number): number =>
    sites.reduce((total, site) => total + of(site), 0);
  const done = sum(countDone);
  const atWork = sites.filter(({ ended }) => !ended).length;
  return `${done} of ${sum(({ entries }) => entries)} documents done: ${sum(({ archived }) => archived)} archived, ${sum(({ deduped }) => deduped)} repeated, ${sum(({ rejected }) => rejected)} rejected; ${atWork} of ${sites.length} sites busy`;
}
