/** The commands and their arguments. */
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
    .option("--data <folder>", "folder of the store, the archive and the evidence", DATA)
    .option("--json", "print JSON, one object per line", false)
    // The library reports the mistake; this program decides the exit code.
    .exitOverride();
  const common = (): { readonly data: string; readonly json: boolean } => program.opts();

  program
    .command("demo")
    .summary("ingest documents from a dozen demo portals on this machine")
    .option("--sites <n>", "number of portals", readWhole, 12)
    .option("--documents <n>", "documents on all portals together", readWhole, 500)
    .option("--seed <n>", "seed of the documents", readWhole, 1)
    .action(async (flags: { sites: number; documents: number; seed: number }) =>
      finish(await runDemo({ ...common(), ...flags })),
    );

  program
    .command("ingest")
    .summary("ingest the documents of a manifest, or the PDFs of a folder")
    .argument("<source>", "a manifest (JSON lines, or .csv), or a folder")
    .option("--config <file>", "the sites and limits", "site-packets.json")
    .option("--site <name>", "site name for a folder's documents")
    .action(async (source: string, flags: { config: string; site?: string }) =>
      finish(await ingestFrom(source, { ...common(), ...flags })),
    );

  program
    .command("feed")
    .summary("ingest entries of a site from standard input as they arrive")
    .requiredOption("--site <name>", "a site of the configuration")
    .option("--config <file>", "the sites and limits", "site-packets.json")
    .action(async (flags: { config: string; site: string }) =>
      finish(await runFeed({ ...common(), ...flags })),
    );

  program
    .command("search")
    .summary("find documents by their text")
    .argument("<words...>", "words in this order")
    .option("--limit <n>", "documents to show", readWhole, 10)
    .option("--demo", "search the demo's archive", false)
    .action(async (words: readonly string[], flags: { limit: number; demo: boolean }) =>
      finish(await search(words.join(" "), { ...common(), ...flags })),
    );

  program
    .command("timeline")
    .summary("show what happened to a document, from the exported ledger alone")
    .argument("<site>", "site of the document")
    .argument("<document>", "name that the site gives it")
    .option("--demo", "use the demo's ledger", false)
    .action(async (site: string, document: string, flags: { demo: boolean }) =>
      finish(await showTimeline(site, document, { ...common(), ...flags })),
    );

  program
    .command("drill")
    .summary("run validation drills: replay, back-pressure, rate, shutdown, reconstruction")
    .argument("[names...]", "drills to run (default: all)")
    .option("--full", "full size: 500 documents and more, minutes each", false)
    .action(async (names: readonly string[], flags: { full: boolean }) =>
      finish(await runDrills(names, { ...common(), ...flags })),
    );
  return program;
}

function readWhole(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new InvalidArgumentError("Give a whole number, 1 or more.");
}
