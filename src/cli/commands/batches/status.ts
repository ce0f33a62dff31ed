/** `sluice status`: everything about one batch at this moment. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { computeEstimate } from "../../../core/batch/progress.ts";
import { redactText, redactValue } from "../../../core/base/redact.ts";
import { explainBatch } from "../../../core/batch/why.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import { type BatchEvent, readEvent } from "../../../runtime/delivering/batch-event.ts";
import { describeNobody, describeWho, readHold } from "../../../views/hold.ts";
import {
  describeFailed,
  renderFacts,
  renderHeading,
  renderReason,
} from "../../render/batch-summary.ts";
import { computeElapsedMs, countRun, viewBatchFully } from "../../../views/batch.ts";
import {
  type AbandonedFacts,
  describeAbandoned,
  renderAbandoned,
} from "../../render/cancel-report.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration, formatInstantShort, formatRange } from "../../output/format-duration.ts";
import { formatCount, formatPercent, formatRate } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { renderBar } from "../../render/progress-line.ts";
import type { Screen } from "../../output/screen.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { describeStepTurn, hasSteps } from "../../../views/step.ts";
import { renderSteps } from "../../render/steps.ts";
import { clipText } from "../../output/text-width.ts";
import { withBatch } from "../../session/with-store.ts";

/** A batch writes a handful of records about itself. */
const EVENTS_MAX = 1_000;
const BAR_COLUMNS = 30;
const LABEL_COLUMNS = 14;
const INPUT_COLUMNS = 60;
const TYPE_COLUMNS = 22;

export function addStatusCommand(program: Command, cli: Cli): void {
  const command = program
    .command("status")
    .summary("show one batch: counts, progress, events")
    .description(
      "Shows one batch: its counts, how far it is, what it waits for, what happened when, and why it " +
        "ended.",
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
    const { text: hold, facts } = await readHold(store, batch);
    const { out } = cli;
    if (flags.json === true) {
      const { input } = batch;
      const shown = events.map(({ seq, type, at, data }) => ({ seq, type, at, data }));
      const view = {
        ...viewBatchFully(batch, wallMs),
        why: facts === null ? null : explainBatch(facts),
        ahead: facts?.ahead ?? 0,
        chunkSize: batch.settings.steps[batch.step]?.chunkSize ?? 0,
        input: input === null ? null : redactValue(JSON.parse(input)),
        ...findAbandoned(batch, events),
        events: shown,
      };
      out.line(formatJson(view));
      return EXIT.ok;
    }
    const waits = hold ?? describeNobody(facts);
    const lines = [
      renderHeading(batch, out),
      ...renderReason(batch, out),
      ...(waits === null ? [] : [out.colours.yellow(makeInert(waits))]),
      "",
      ...renderNames(batch, wallMs, out),
      ...renderCancel(batch, findAbandoned(batch, events), out),
      "",
      ...renderProgressFacts(batch, wallMs, out),
      ...renderSteps(batch, out),
      "",
      ...renderTimeline(events, hasSteps(batch), out),
      ...renderHint(batch, config.storeFlag, out),
    ];
    for (const line of lines) out.line(line);
    return EXIT.ok;
  });
}

/** As its last ending has recorded it. */
function findAbandoned(batch: BatchSnapshot, events: readonly BatchEvent[]): AbandonedFacts {
  const ended = isEnded(batch.state) ? events.findLast(({ type }) => type === "batch.ended") : null;
  return describeAbandoned(batch, ended?.data ?? {});
}

function renderNames(batch: BatchSnapshot, wallMs: number, out: Screen): string[] {
  const { version, lane, pipeline, key, input, settings, step, chunks } = batch;
  const perChunk = formatCount(settings.steps[step]?.chunkSize ?? 0);
  return renderLabels(
    [
      ["version", makeInert(version)],
      ...optional("lane", lane === pipeline ? null : lane),
      ...optional("key", key),
      [
        "input",
        input === null ? "items of its own" : clipText(makeInert(redactText(input)), INPUT_COLUMNS),
      ],
      ["chunks", `${formatCount(chunks)} of up to ${perChunk} items`],
      ...optional("step", describeStepTurn(batch)),
      ...optional("drive", batch.drive > 1 ? formatCount(batch.drive) : null),
      ...optional("deadline", describeDeadline(batch, wallMs)),
      ...optional("retention", batch.pruned ? "what a redrive needs has been removed" : null),
    ],
    out,
  );
}

function describeDeadline({ deadlineAt, state }: BatchSnapshot, wallMs: number): string | null {
  if (deadlineAt === null) return null;
  const at = `${formatInstantShort(deadlineAt)} UTC`;
  if (isEnded(state)) return at;
  const leftMs = deadlineAt - wallMs;
  return leftMs > 0 ? `${at}, in ${formatDuration(leftMs)}` : `${at}, which has passed`;
}

/** Who wanted its end, and whether every worker has let go of it. */
function renderCancel(batch: BatchSnapshot, abandoned: AbandonedFacts, out: Screen): string[] {
  const { cancel, endedAt } = batch;
  if (cancel === null) return [];
  const asked = `${cancel.mode}, by ${describeWho(cancel)}, ${formatInstantShort(cancel.requestedAt)} UTC`;
  const done =
    endedAt === null
      ? "not yet: workers hold chunks of it"
      : `${formatInstantShort(endedAt)} UTC: nothing of it starts any more`;
  const label = (name: string, text: string): string =>
    renderLabels([[name, makeInert(text)]], out)[0] ?? "";
  return [
    label("cancel", asked),
    label("acknowledged", done),
    ...renderAbandoned(abandoned, label).map((line) => out.colours.yellow(line)),
  ];
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

function renderTimeline(events: readonly BatchEvent[], isStepped: boolean, out: Screen): string[] {
  const { dim, bold } = out.colours;
  return [
    bold("events (UTC)"),
    ...events.map(({ at, type, data }) => {
      const instant = formatInstantShort(Date.parse(at));
      return `  ${dim(instant)}  ${type.padEnd(TYPE_COLUMNS)}  ${dim(describeData(data, isStepped))}`.trimEnd();
    }),
  ];
}

/** The few facts of a record that are worth a word in a timeline. */
function describeData(data: BatchEvent["data"], isStepped: boolean): string {
  const names = ["state", ...(isStepped ? ["name"] : []), "mode", "chunks", "items", "code"];
  const words = names.flatMap((name) => {
    const value = data[name];
    if (typeof value === "number") return [`${name} ${formatCount(value)}`];
    return typeof value === "string" ? [makeInert(value)] : [];
  });
  const { drive } = data;
  if (typeof drive === "number" && drive > 1) words.push(`drive ${formatCount(drive)}`);
  const { by, why } = data;
  if (typeof by === "string") {
    const who = describeWho({ by, why: typeof why === "string" ? why : null });
    words.push(`by ${makeInert(who)}`);
  }
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
