/** `site-packets timeline`: what happened to one document, from the exported ledger alone. */
import { SluiceError } from "sluice";
import { listLedgers } from "../evidence.ts";
import { SITE_NAME } from "../entry.ts";
import { readDocument } from "../timeline.ts";
import { type DataFlags, openFolders } from "./data-folder.ts";
import { EXIT } from "./exit-codes.ts";
import { formatInertJson, makeInert } from "./inert-text.ts";

export async function showTimeline(
  site: string,
  document: string,
  flags: DataFlags,
): Promise<number> {
  if (!SITE_NAME.test(site)) throw new SluiceError("BAD_USAGE", `${site} is not a valid site name`);
  const folders = openFolders(flags);
  const ledgers = await listLedgers(folders, site);
  if (ledgers.length === 0) {
    const message = `there is no exported ledger of ${site} in ${folders.evidence}`;
    throw new SluiceError("NO_LEDGER", message, {
      hint: "An ingest writes it at its end. For the demo's ledger, add --demo.",
    });
  }
  const events = await readDocument(ledgers, document);
  if (events.length === 0) {
    throw new SluiceError("NO_DOCUMENT", `no ledger of ${site} has a document ${document}`);
  }
  for (const event of events) {
    if (flags.json) {
      process.stdout.write(`${formatInertJson(event)}\n`);
      continue;
    }
    const { at, state, code, attempt, details } = event;
    const said = details === null ? (code ?? "") : JSON.stringify(details);
    const nth = attempt === null ? "" : `attempt ${attempt}`;
    const line = `${at}  ${state.padEnd(10)}  ${nth.padEnd(10)}  ${said}`;
    process.stdout.write(`${makeInert(line)}\n`);
  }
  return EXIT.ok;
}
