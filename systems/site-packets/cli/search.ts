/** `site-packets search`: documents by their text, with a few words around each match. */
import { stat } from "node:fs/promises";
import { outColours } from "./colours.ts";
import { SluiceError } from "sluice";
import { type SearchHit, SearchIndex } from "../search-index.ts";
import { type DataFlags, openFolders } from "./data-folder.ts";
import { EXIT } from "./exit-codes.ts";
import { formatInertJson, makeInert } from "./inert-text.ts";

export async function search(
  words: string,
  flags: DataFlags & { readonly limit: number },
): Promise<number> {
  if (!/[\p{L}\p{N}]/u.test(words)) {
    throw new SluiceError("BAD_USAGE", "the search has no words", {
      hint: 'Give words that follow each other, for example: search "informed consent"',
    });
  }
  const { searchIndex, root } = openFolders(flags);
  await stat(searchIndex).catch((cause: unknown) => {
    throw new SluiceError("NO_INDEX", `no documents are archived in ${root}`, {
      hint: "Ingest documents first, or name another folder with --data. To search the demo's, add --demo.",
      cause,
    });
  });
  const index = new SearchIndex(searchIndex);
  try {
    const hits = index.search(words, flags.limit);
    if (flags.json) for (const hit of hits) process.stdout.write(`${formatInertJson(hit)}\n`);
    else {
      for (const hit of hits) process.stdout.write(describeHit(hit));
      process.stdout.write(`${hits.length} of ${index.count(words)} documents\n`);
    }
    return EXIT.ok;
  } finally {
    index.close();
  }
}

/** The text is from a document and may contain anything. */
function describeHit({ site, document, type, sha256, excerpt }: SearchHit): string {
  const text = makeInert(excerpt.replace(/\s+/g, " "));
  // With its brackets: the document's own text may contain brackets too.
  const shown = text.replace(/\[[^\]]*\]/g, outColours.bold);
  const { dim } = outColours;
  return `${site}  ${makeInert(document)}  ${dim(`${makeInert(type)}  ${sha256.slice(0, 12)}`)}\n    ${shown}\n`;
}
