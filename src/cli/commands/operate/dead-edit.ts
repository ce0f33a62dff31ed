/** `sluice dead edit`: replaces the payload of a dead letter, for its next drive. */
import { readFileSync } from "node:fs";
import { type Command, Option } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import type { Pipeline } from "../../../runtime/pipeline/pipeline.ts";
import { type ActFlags, addActFlags, addYesFlag, readActOptions } from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { confirmAct } from "../../output/confirm.ts";
import { type DeskFlags, findLetterStep, loadPipelineOf } from "../../session/dead-letter-desk.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson } from "../../output/inert-text.ts";
import { ABOUT_ITEM, ABOUT_LETTER_STEP, readItem } from "../../flags/letter-flags.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { showPath } from "../../output/show-path.ts";
import { viewEdited } from "../../../views/dead-letter.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { editText } from "../../session/text-editor.ts";
import { type StoreLook, withBatch } from "../../session/with-store.ts";

interface EditFlags extends ActFlags, DeskFlags {
  readonly set?: string;
  readonly file?: string;
}

export function addEditCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("edit")
    .summary("replace the payload of a dead letter")
    .description(
      "Replace the payload of a dead letter: with --set, --file, or an editor on a terminal ($VISUAL or " +
        "$EDITOR). With --pipeline-file it is checked against the schema of the step. `sluice redrive` " +
        "runs the item. Asks for confirmation.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .argument("<item>", ABOUT_ITEM)
    .addOption(new Option("--set <json>", "new payload").conflicts("file"))
    .option("--file <path>", "file with the new payload as JSON")
    .option("--step <name>", ABOUT_LETTER_STEP)
    .option("--pipeline-file <file>", "pipeline file, to read and check the payload");
  addYesFlag(addActFlags(command)).action(async (id: string, item: string) => {
    cli.finish(await edit(cli, id, item, readSubFlags<EditFlags>(command)));
  });
  addExamples(command, [
    [`sluice dead edit b-k3x 17 --set '{"email": "a@b.c"}'`, "from the command line"],
    ["sluice dead edit b-k3x 17 --pipeline-file import.ts", "in an editor, checked"],
  ]);
}

async function edit(cli: Cli, id: string, text: string, flags: EditFlags): Promise<number> {
  const item = readItem(text);
  const act = readActOptions(flags);
  const given = readGiven(flags);
  return withBatch(cli, id, flags, [], async (batch, look) => {
    const pipeline = await loadPipelineOf(batch, flags);
    const step = await findLetterStep(look.store, batch, item, flags);
    const place = { batch, step, item, pipeline };
    const payload = given === null ? await editByHand(cli, look, place) : given.value;
    if (given !== null) await openLetter(cli, look, place);
    await confirmAct(cli, flags, `Replace the payload of item ${item} of batch ${batch.id}?`);
    const operator = new Operator(look.store, cli.clock);
    await operator.editDeadLetter(batch.id, { step, item, pipeline, payload, ...act });
    const checked = (pipeline?.steps[step]?.itemSchema ?? null) !== null;
    report(cli, look, place, checked, flags);
    return EXIT.ok;
  });
}

interface Place {
  readonly batch: BatchSnapshot;
  readonly step: number;
  readonly item: number;
  readonly pipeline: Pipeline | null;
}

/** Refuses an item that is not a dead letter before asking for confirmation. */
function openLetter(
  { clock }: Cli,
  { store }: StoreLook,
  { batch, step, item, pipeline }: Place,
): ReturnType<Operator["openDeadLetter"]> {
  return new Operator(store, clock).openDeadLetter(batch.id, { step, item, pipeline });
}

/** The payload from the command line; null if it has none. */
function readGiven({ set, file }: EditFlags): { readonly value: unknown } | null {
  if (set !== undefined) return { value: parsePayload(set, "--set") };
  if (file === undefined) return null;
  try {
    return { value: parsePayload(readFileSync(file, "utf8"), showPath(file)) };
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const { code = "" } = cause as NodeJS.ErrnoException;
    throw new SluiceError("FILE_MISSING", `${showPath(file)} cannot be read: ${code}`, {
      hint: "Check the path of --file.",
      cause,
    });
  }
}

function parsePayload(text: string, place: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new SluiceError("BAD_OPTION", `${place} is not JSON: ${(cause as Error).message}`, {
      field: "payload",
      hint: `Quote it for the shell, for example: --set '{"site": 12}'. The dead letter is unchanged.`,
      cause,
    });
  }
}

/** A person edits the current payload. */
async function editByHand(cli: Cli, look: StoreLook, place: Place): Promise<unknown> {
  if (cli.ask === null) {
    throw new SluiceError("USAGE", "no payload is given, and an editor needs a terminal", {
      hint: "Give it with --set <json> or --file <path>.",
    });
  }
  const { payload, payloadProblem } = await openLetter(cli, look, place);
  if (payloadProblem !== null) {
    throw new SluiceError("NO_PAYLOAD", `the payload cannot be read: ${payloadProblem}`, {
      hint: "Name the pipeline with --pipeline-file <file>, or give the payload with --set <json>.",
    });
  }
  const before = `${JSON.stringify(payload, null, 2)}\n`;
  const after = editText(before, `${place.batch.id}-${place.item}.json`, cli.env);
  if (after !== before) return parsePayload(after, "the edited text");
  throw new SluiceError("DECLINED", "nothing was changed: the text is the same", {
    hint: "Change it in the editor and save it.",
  });
}

function report(
  { out, err }: Cli,
  { config }: StoreLook,
  { batch, step, item }: Place,
  checked: boolean,
  { json }: EditFlags,
): void {
  if (json === true) {
    out.line(formatJson(viewEdited(batch, step, item, checked)));
    return;
  }
  out.line(`edited item ${item} of batch ${batch.id}`);
  if (!checked) err.line("not checked against a schema: --pipeline-file <file> does that");
  err.line("To run it:");
  const command = ["sluice", "redrive", batch.id, "--item", String(item), ...config.storeFlag];
  err.line(err.colours.cyan(`  ${quoteCommand(command)}`));
}
