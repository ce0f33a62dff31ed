/** `sluice why`: the one answer to "why is this waiting?". */
import type { Command } from "commander";
import type { Why, WhyCode } from "../../../core/batch/why.ts";
import { type Explanation, Operator } from "../../../runtime/engine/operator.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun, formatCount } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { renderTable } from "../../output/table.ts";
import { withBatch } from "../../session/with-store.ts";

/** Unsettled chunks that are looked at: more would say the same. */
const CHUNKS_MAX = 100_000;
const NEXT_MAX = 5;

export function addWhyCommand(program: Command, cli: Cli): void {
  const command = program
    .command("why")
    .summary("say why a batch waits, and what its chunks wait for")
    .description(
      "Says in one line why a batch waits, then how many chunks wait for what, and what the next few " +
        "chunks wait for.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .action(async (id: string) => {
      cli.finish(await why(cli, id, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice why b-k3x", "one line, then the chunks"],
    ["sluice why b-k3x --json", "one JSON object"],
  ]);
}

function why(cli: Cli, id: string, flags: CommonFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const answer = await new Operator(store, cli.clock).why(batch.id, CHUNKS_MAX);
    const reasons = countReasons(answer.chunks);
    if (flags.json === true) cli.out.line(formatJson(viewAnswer(answer, reasons)));
    else printAnswer(cli, answer, reasons);
    return EXIT.ok;
  });
}

interface Reason {
  readonly code: WhyCode;
  readonly chunks: number;
}

function countReasons(chunks: readonly Why[]): Reason[] {
  const groups = Map.groupBy(chunks, ({ code }) => code);
  return [...groups].map(([code, group]) => ({ code, chunks: group.length }));
}

function viewAnswer({ batch, code, message, chunks }: Explanation, reasons: Reason[]): object {
  return { batch, code, message, reasons, next: chunks.slice(0, NEXT_MAX) };
}

function printAnswer({ out, err }: Cli, answer: Explanation, reasons: Reason[]): void {
  const { code, message, chunks } = answer;
  const { colours } = out;
  out.line(`${colours.bold(code)}: ${makeInert(message)}`);
  // Of a batch that has ended there is nothing to wait for.
  if (chunks.length === 0 || code === "ended") return;
  out.line();
  const groups = reasons.map((reason) => [formatCount(reason.chunks), reason.code]);
  const titles = [{ title: "CHUNKS", align: "right" as const }, { title: "WAIT FOR" }];
  for (const line of renderTable(titles, groups, out)) out.line(line);
  out.line();
  const next = chunks.slice(0, NEXT_MAX).map((one) => [String(one.chunk), makeInert(one.message)]);
  const columns = [
    { title: "CHUNK", align: "right" as const },
    { title: "WHY", elastic: true },
  ];
  for (const line of renderTable(columns, next, out)) out.line(line);
  if (chunks.length >= CHUNKS_MAX) {
    err.line(`only the first ${countNoun(CHUNKS_MAX, "chunk")} were looked at`);
  }
}
