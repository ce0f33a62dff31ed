/** Makes the JSONL files that the subjects read: one small object per line, about 60 bytes. */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

const LINES_PER_WRITE = 10_000;

export function writeItemsFile(path: string, items: number): void {
  const file = openSync(path, "w");
  try {
    for (let first = 1; first <= items; first += LINES_PER_WRITE) {
      const end = Math.min(first + LINES_PER_WRITE, items + 1);
      let text = "";
      for (let item = first; item < end; item++) text += formatItem(item);
      writeSync(file, text);
    }
    // Otherwise the file's write-back would compete with the first subject's commits.
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function formatItem(item: number): string {
  const id = String(item).padStart(8, "0");
  // Spread over six digits, the same in every run.
  const value = 100_000 + ((item * 7_919) % 900_000);
  return `{"id":"item-${id}","value":${value},"kind":"document"}\n`;
}
