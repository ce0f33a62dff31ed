/**
 * Counts the words of each note in a JSONL file. One line is broken on purpose. It fails alone, with
 * its line number.
 *
 *   npx sluice run examples/word-count.ts --input examples/notes.jsonl
 */
import { definePipeline, jsonl, skipped } from "sluice";

interface Note {
  readonly id: string;
  readonly text: string;
}

export default definePipeline({
  name: "word-count",
  source: ({ input }) => jsonl<Note>(input),
  key: (note) => note.id,
  process(note) {
    const words = note.text.match(/\p{L}+/gu) ?? [];
    if (words.length === 0) return skipped("no words");
    return { words: words.length };
  },
});
