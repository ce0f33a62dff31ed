/** `sluice why`: explains why a batch waits. */
import type { Command } from "commander";
import { Operator } from "../../../runtime/engine/operator.ts";
import { viewWhy } from "../../../views/why.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { Cli } from "../../output/cli.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { renderWhy } from "../../render/why.ts";
import { withBatch } from "../../session/with-store.ts";

/** Unsettled chunks that are checked: more would show the same reasons. */
const CHUNKS_MAX = 100_000;

export function addWhyCommand(program: Command, cli: Cli): void {
  const command = program
    .command("why")
    .summary("explain why a batch waits")
    .description(
      "Explain in one line why a batch waits, then show how many chunks wait for what, and what the " +
        "next few chunks wait for",
    )
    .argument("<batch>", ABOUT_BATCH)
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
    const view = viewWhy(answer);
    if (flags.json === true) {
      cli.out.line(formatJson(view));
      return EXIT.ok;
    }
    for (const line of renderWhy(view, cli.out)) cli.out.line(line);
    if (answer.chunks.length >= CHUNKS_MAX) {
      cli.err.line(`only the first ${countNoun(CHUNKS_MAX, "chunk")} were checked`);
    }
    return EXIT.ok;
  });
}
