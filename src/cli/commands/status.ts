/** `sluice status`: everything about one batch at this moment. */
import type { Command } from "commander";
import { isEnded } from "../../core/batch.ts";
import { computeEstimate } from "../../core/progress.ts";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import { type BatchEvent, readEvent } from "../../runtime/batch-event.ts";
import { describeFailed, renderFacts, renderHeading, renderReason } from "../batch-summary.ts";
import { computeElapsedMs, viewBatchFully, countRun } from "../batch-view.ts";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-help.ts";
import type { CommonFlags } from "../common-flags.ts";
import { EXIT } from "../exit-codes.ts";
import { formatDuration, formatInstantShort, formatRange } from "../format-duration.ts";
import { formatCount, formatPercent, formatRate } from "../format-number.ts";
import { formatJson, makeInert } from "../inert-text.ts";
import { renderBar } from "../progress-line.ts";
import type { Screen } from "../screen.ts";
import { quoteCommand } from "../shell-words.ts";
import { clipText } from "../text-width.ts";
import { withBatch } from "../with-store.ts";

/** A batch writes a handful of records about itself. */
const EVENTS_MAX = 1_000;
const BAR_COLUMNS = 30;
const LABEL_COLUMNS = 12;
const INPUT_COLUMNS = 60;

export function addStatusCommand(program: Command, cli: Cli): void {
  const command = program
    .command("status")
    .summary("show one batch: counts, progress, events")
    .description(
      "Shows one batch: its counts, how far it is, what happened when, and why it ended.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .action(async (id: string) => {
      cli.finish(await status(cli, id, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice status b-k3x", "a unique beginning is enough"],
    ["sluice status b-k3x --json", "one JSON object, with its events"],
  ]);
}

function status(cli: Cli, id: string, flags: CommonFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, { store, config }) => {
    const records = await store.readRecords(batch.id, 0, EVENTS_MAX);
    const events = records.map(readEvent);
    const wallMs = cli.clock.wallMs();
    const { out } = cli;
    if (flags.json === true) {
      const { input } = batch;
      const shown = events.map(({ seq, type, at, data }) => ({ seq, type, at, data }));
      const view = {
        ...viewBatchFully(batch, wallMs),
        chunkSize: batch.settings.chunkSize,
        input: input === null ? null : (JSON.parse(input) as unknown),
        events: shown,
      };
      out.line(formatJson(view));
      return EXIT.ok;
    }
    const lines = [
      renderHeading(batch, out),
      ...renderReason(batch, out),
      "",
      ...renderNames(batch, out),
      "",
      ...renderProgressFacts(batch, wallMs, out),
      "",
      ...renderTimeline(events, out),
      ...renderHint(batch, config.storeFlag, out),
    ];
    for (const line of lines) out.line(line);
    return EXIT.ok;
  });
}

function renderNames(batch: BatchSnapshot, out: Screen): string[] {
  const { version, lane, pipeline, key, input, settings, chunks } = batch;
  const perChunk = formatCount(settings.chunkSize);
  return renderLabels(
    [
      ["version", makeInert(version)],
      ...optional("lane", lane === pipeline ? null : lane),
      ...optional("key", key),
      ["input", input === null ? "items of its own" : clipText(makeInert(input), INPUT_COLUMNS)],
      ["chunks", `${formatCount(chunks)} of up to ${perChunk} items`],
    ],
    out,
  );
}

function optional(label: string, value: string | null): [string, string][] {
  return value === null ? [] : [[label, makeInert(value)]];
}

function renderProgressFacts(batch: BatchSnapshot, wallMs: number, out: Screen): string[] {
  const { counts, state } = batch;
  const done = countRun(counts);
  const elapsedMs = computeElapsedMs(batch, wallMs);
  // One look has no pace of its own: the whole run's is the best guess.
  const samples = [
    { atMs: 0, done: 0 },
    { atMs: elapsedMs, done },
  ];
  const { itemsPerSecond, etaMs } = computeEstimate(samples, counts);
  const bar = renderBar(done, counts, BAR_COLUMNS, out);
  return [
    ...(out.isTerminal ? [`  ${bar} ${formatPercent(done, counts.planned)}`, ""] : []),
    ...renderFacts(
      [
        { name: "planned", value: formatCount(counts.planned) },
        { name: "succeeded", value: formatCount(counts.succeeded) },
        { name: "skipped", value: formatCount(counts.skipped) },
        describeFailed(counts.failed, out),
        { name: "cancelled", value: formatCount(counts.cancelled) },
        { name: "pending", value: formatCount(counts.pending) },
        { name: "elapsed", value: formatDuration(elapsedMs) },
        { name: "rate", value: formatRate(itemsPerSecond) },
        ...(isEnded(state) || etaMs === null ? [] : [{ name: "ETA", value: formatRange(etaMs) }]),
      ],
      out,
    ),
  ];
}

function renderLabels(rows: readonly [string, string][], out: Screen): string[] {
  return rows.map(([label, value]) => `  ${out.colours.dim(label.padEnd(LABEL_COLUMNS))}${value}`);
}

function renderTimeline(events: readonly BatchEvent[], out: Screen): string[] {
  const { dim, bold } = out.colours;
  return [
    bold("events (UTC)"),
    ...events.map(({ at, type, data }) => {
      const instant = formatInstantShort(Date.parse(at));
      return `  ${dim(instant)}  ${type.padEnd(17)}  ${dim(describeData(data))}`.trimEnd();
    }),
  ];
}

/** The few facts of a record that are worth a word in a timeline. */
function describeData(data: BatchEvent["data"]): string {
  const words = ["state", "chunks", "items", "code"].flatMap((name) => {
    const value = data[name];
    if (typeof value === "number") return [`${name} ${formatCount(value)}`];
    return typeof value === "string" ? [makeInert(value)] : [];
  });
  return words.join(", ");
}

function renderHint(
  { id, counts, state }: BatchSnapshot,
  storeFlag: readonly string[],
  out: Screen,
): string[] {
  const say = (verb: string): string =>
    out.colours.cyan(quoteCommand(["sluice", verb, id, ...storeFlag]));
  return [
    ...(isEnded(state) && counts.failed === 0 ? [] : [""]),
    ...(isEnded(state) ? [] : [`${say("watch")}  ${out.colours.dim("follow it")}`]),
    ...(counts.failed > 0 ? [`${say("dead")}  ${out.colours.dim("what failed, and why")}`] : []),
  ];
}
