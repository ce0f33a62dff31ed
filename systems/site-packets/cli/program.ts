/** The commands, with what each takes. */
import { Command, InvalidArgumentError } from "commander";
import { runDemo } from "./demo.ts";
import { ingestFrom } from "./ingest-from.ts";
import { runDrills } from "./run-drills.ts";
import { runFeed } from "./run-feed.ts";
import { search } from "./search.ts";
import { showTimeline } from "./show-timeline.ts";

const DATA = ".sluice/site-packets";

export function makeProgram(finish: (code: number) => void): Command {
  const program = new Command("site-packets")
    .description(
      "Ingests clinical sites' documents: from their portals to an archive with evidence.",
    )
    .option("--data <folder>", "where the store, the archive and the evidence are", DATA)
    .option("--json", "print JSON for machines, one object a line", false)
    // It says what is wrong; with which code to end is ours to say.
    .exitOverride();
  const common = (): { readonly data: string; readonly json: boolean } => program.opts();

  program
    .command("demo")
    .summary("ingest what the portals of a dozen sites of this machine offer")
    .option("--sites <n>", "portals", readWhole, 12)
    .option("--documents <n>", "documents on all of them", readWhole, 500)
    .option("--seed <n>", "what they are made from", readWhole, 1)
    .action(async (flags: { sites: number; documents: number; seed: number }) =>
      finish(await runDemo({ ...common(), ...flags })),
    );

  program
    .command("ingest")
    .summary("ingest the documents of a manifest, or the PDFs of a folder")
    .argument("<source>", "a manifest (JSON lines, or .csv), or a folder")
    .option("--config <file>", "the sites and limits", "site-packets.json")
    .option("--site <name>", "what a folder's documents are filed under")
    .action(async (source: string, flags: { config: string; site?: string }) =>
      finish(await ingestFrom(source, { ...common(), ...flags })),
    );

  program
    .command("feed")
    .summary("ingest the entries of a site as they come, from standard input")
    .requiredOption("--site <name>", "whose they are: one of the configuration")
    .option("--config <file>", "the sites and limits", "site-packets.json")
    .action(async (flags: { config: string; site: string }) =>
      finish(await runFeed({ ...common(), ...flags })),
    );

  program
    .command("search")
    .summary("find documents by their text")
    .argument("<words...>", "words that follow each other")
    .option("--limit <n>", "documents to show", readWhole, 10)
    .option("--demo", "search what the demo has archived", false)
    .action(async (words: readonly string[], flags: { limit: number; demo: boolean }) =>
      finish(await search(words.join(" "), { ...common(), ...flags })),
    );

  program
    .command("timeline")
    .summary("tell what happened to a document, from the exported ledger alone")
    .argument("<site>", "the site that it is from")
    .argument("<document>", "what the site calls it")
    .option("--demo", "of the demo", false)
    .action(async (site: string, document: string, flags: { demo: boolean }) =>
      finish(await showTimeline(site, document, { ...common(), ...flags })),
    );

  program
    .command("drill")
    .summary("play validation drills: replay, back-pressure, rate, shutdown, reconstruction")
    .argument("[names...]", "which; all of them by default")
    .option("--full", "in earnest: 500 documents and more, minutes each", false)
    .action(async (names: readonly string[], flags: { full: boolean }) =>
      finish(await runDrills(names, { ...common(), ...flags })),
    );
  return program;
}

function readWhole(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError("It must be a whole number from 1 on.");
}
