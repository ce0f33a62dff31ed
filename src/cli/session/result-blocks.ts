/**
 * Results and items of a batch as blocks of text: whole lines, one block for each page of the
 * store.
 */
import { isEnded } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { ItemOutcomeWord } from "../../core/items/outcome-list.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { listItems } from "../../runtime/engine/item-list.ts";
import { viewItem } from "../../views/item.ts";
import { type CsvCell, writeCsvRow } from "../output/csv-text.ts";
import { formatJson, makeInert, makeInertJson } from "../output/inert-text.ts";
import { findColumns } from "../render/result-columns.ts";
import { readResultPages } from "./result-pages.ts";

/** One line at a time costs three times as much. */
export interface Block {
  readonly text: string;
  readonly lines: number;
}

const LINES_PER_BLOCK = 1_000;

export async function* writeItems(
  store: Store,
  batch: string,
  step: number,
  outcome: ItemOutcomeWord,
): AsyncGenerator<Block> {
  let lines: string[] = [];
  for await (const listed of listItems(store, batch, step, outcome)) {
    lines.push(formatJson(viewItem(listed)));
    if (lines.length < LINES_PER_BLOCK) continue;
    yield { text: joinLines(lines), lines: lines.length };
    lines = [];
  }
  if (lines.length > 0) yield { text: joinLines(lines), lines: lines.length };
}

export async function* writeJsonl(
  store: Store,
  batch: string,
  step: number,
): AsyncGenerator<Block> {
  for await (const page of readResultPages(store, batch, step)) {
    // The value is already JSON; parsing it would round its large numbers.
    const lines = page.map(
      ({ item, key, value }) => `{"item":${item},"key":${JSON.stringify(key)},"value":${value}}`,
    );
    yield { text: joinLines(lines.map(makeInertJson)), lines: page.length };
  }
}

export async function writeCsv(
  store: Store,
  batch: BatchSnapshot,
  step: number,
  isShown: boolean,
): Promise<AsyncGenerator<Block>> {
  if (!isEnded(batch.state)) {
    throw new SluiceError("WRONG_STATE", `batch ${batch.id} is ${batch.state}`, {
      kind: "batch",
      hint: "CSV needs all results to know its columns: wait for the end, or use --format jsonl.",
    });
  }
  const { titles, row } = await findColumns(readResultPages(store, batch.id, step));
  const write = (rows: readonly CsvCell[][]): string =>
    joinLines(rows.map(writeCsvRow).map((line) => (isShown ? makeInert(line) : line)));
  return (async function* () {
    yield { text: write([[...titles]]), lines: 0 };
    for await (const page of readResultPages(store, batch.id, step)) {
      yield { text: write(page.map(row)), lines: page.length };
    }
  })();
}

function joinLines(lines: readonly string[]): string {
  return `${lines.join("\n")}\n`;
}
