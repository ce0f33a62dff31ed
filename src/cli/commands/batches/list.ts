/** `sluice list`: the batches of a store, newest first. */
import { type Command, Option } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import type { Store } from "../../../ports/store/store.ts";
import { readHold } from "../../../views/hold.ts";
import { paintState } from "../../render/batch-summary.ts";
import { viewBatchFully, countRun } from "../../../views/batch.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { readNumber } from "../../config/config.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatAge, formatDuration } from "../../output/format-duration.ts";
import { formatCount } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import type { Screen } from "../../output/screen.ts";
import { describeStepTurn } from "../../../views/step.ts";
import { type Column, renderTable } from "../../output/table.ts";
import { withStore } from "../../session/with-store.ts";

interface ListFlags extends CommonFlags {
  readonly pipeline?: string;
  readonly state?: BatchState[];
  readonly limit?: string;
}

const LIMIT = 20;
const LIMIT_MAX = 1_000_000;

export function addListCommand(program: Command, cli: Cli): void {
  const command = program
    .command("list")
    .summary("list batches, newest first")
    .description("Lists the batches of a store, newest first.")
    .option("--pipeline <name>", "only batches of this pipeline")
    .addOption(
      new Option("--state <state...>", "only batches in these states").choices(BATCH_STATES),
    )
    .option("--limit <n>", `at most this many (default: ${LIMIT})`)
    .action(async () => {
      cli.finish(await list(cli, command.optsWithGlobals<ListFlags>()));
    });
  addExamples(command, [
    ["sluice list", "the newest batches"],
    ["sluice list --state failed --limit 100", "what failed"],
    ["sluice list --json", "one JSON object a line"],
  ]);
}

function list(cli: Cli, flags: ListFlags): Promise<number> {
  const numbers = [{ name: "--limit", given: flags.limit, max: LIMIT_MAX }];
  return withStore(cli, flags, numbers, async ({ store }) => {
    const limit = readNumber(flags.limit) ?? LIMIT;
    const batches = await store.listBatches({
      // One more, to know whether there are more.
      limit: limit + 1,
      ...(flags.pipeline === undefined ? {} : { pipeline: flags.pipeline }),
      ...(flags.state === undefined ? {} : { states: flags.state }),
    });
    const shown = batches.slice(0, limit);
    const wallMs = cli.clock.wallMs();
    if (flags.json === true) {
      for (const batch of shown) cli.out.line(formatJson(viewBatchFully(batch, wallMs)));
      return EXIT.ok;
    }
    if (shown.length === 0) cli.err.line("no batches");
    else {
      const notes = await readNotes(store, shown, wallMs);
      for (const line of renderBatches(shown, notes, wallMs, cli.out)) cli.out.line(line);
    }
    if (batches.length > limit) cli.err.line("there are more: --limit <n> shows them");
    return EXIT.ok;
  });
}

/** What is worth a word about each: what it waits for, where it is, how often, until when. */
async function readNotes(
  store: Store,
  batches: readonly BatchSnapshot[],
  wallMs: number,
): Promise<string[]> {
  const notes: string[] = [];
  for (const batch of batches) {
    const isOver = isEnded(batch.state);
    const hold = isOver ? null : (await readHold(store, batch)).text;
    const step = isOver ? null : describeStepTurn(batch);
    const { deadlineAt, drive } = batch;
    const left = deadlineAt === null || isOver ? null : deadlineAt - wallMs;
    const parts = [
      hold,
      step,
      drive > 1 ? `drive ${formatCount(drive)}` : null,
      left === null ? null : left > 0 ? `expires in ${formatDuration(left)}` : "expires now",
    ];
    notes.push(parts.filter((part) => part !== null).join("; "));
  }
  return notes;
}

function renderBatches(
  batches: readonly BatchSnapshot[],
  notes: readonly string[],
  wallMs: number,
  out: Screen,
): string[] {
  const hasNotes = notes.some((note) => note !== "");
  // A lane is the pipeline's name unless somebody chose one.
  const hasLanes = batches.some(({ lane, pipeline }) => lane !== pipeline);
  const columns: Column[] = [
    { title: "BATCH" },
    { title: "PIPELINE", elastic: !hasNotes },
    ...(hasLanes ? [{ title: "LANE" }] : []),
    {
      title: "STATE",
      paint: (cell) => paintState(cell.trimEnd() as BatchState, out) + trailing(cell),
    },
    { title: "DONE", align: "right" },
    {
      title: "FAILED",
      align: "right",
      paint: (cell) => (/[1-9]/.test(cell) ? out.colours.red(cell) : cell),
    },
    { title: "SUBMITTED", align: "right", paint: out.colours.dim },
    ...(hasNotes ? [{ title: "NOTE", elastic: true }] : []),
  ];
  const rows = batches.map(({ id, pipeline, lane, state, counts, submittedAt }, at) => [
    id,
    makeInert(pipeline),
    ...(hasLanes ? [makeInert(lane)] : []),
    state,
    describeDone(countRun(counts), counts.planned),
    formatCount(counts.failed),
    formatAge(Math.max(0, wallMs - submittedAt)),
    ...(hasNotes ? [makeInert(notes[at] ?? "")] : []),
  ]);
  return renderTable(columns, rows, out);
}

function describeDone(done: number, planned: number): string {
  return done === planned ? formatCount(done) : `${formatCount(done)}/${formatCount(planned)}`;
}

function trailing(cell: string): string {
  return " ".repeat(cell.length - cell.trimEnd().length);
}
