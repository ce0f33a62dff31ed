/**
 * Compares the output on a page with the output of a command. White space and blank lines do not
 * count. Values that differ from run to run are compared by shape: ids, dates, durations, rates,
 * sizes, versions, hashes. Counts, states, codes and messages must be equal. `...` on its own line
 * stands for any lines, `…` for any text within a line.
 */

/** The ids on pages, with the real ids that they stand for. */
export type KnownIds = Map<string, string>;

const ID = "b-[a-z2-7]{12}";
const DURATION = String.raw`\d+(?:\.\d+)? (?:ms|s|min|h)(?: \d+ (?:s|min))?`;

/** What is shown, and the pattern that may be there instead. */
const SHAPES: readonly (readonly [shown: string, real: string])[] = [
  [ID, `(${ID})`],
  [String.raw`\b[0-9a-f]{64}\b`, "[0-9a-f]{64}"],
  [
    String.raw`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?`,
    String.raw`\d{4}-\d\d-\d\d[ T][\d:.]+Z?`,
  ],
  [String.raw`just now|\d+ (?:s|min) ago`, String.raw`(?:just now|\d+ (?:s|min) ago)`],
  [String.raw`[\d,.]+/(?:s|min)\b`, String.raw`[\d,.]+/(?:s|min)`],
  [String.raw`[\d.]+ (?:B|KiB|MiB|GiB|TiB)\b`, String.raw`[\d.]+ (?:B|KiB|MiB|GiB|TiB)`],
  [String.raw`\b${DURATION}\b`, DURATION],
  [String.raw`"elapsedMs":\d+`, String.raw`"elapsedMs":\d+`],
  [String.raw`\b\d+\.\d+\.\d+\b`, String.raw`\d+\.\d+\.\d+`],
  // How far a batch was when it was stopped.
  [String.raw`[\d,]+(?= of [\d,]+ done)`, String.raw`[\d,]+`],
  ["…", ".*?"],
];
const ANY_SHAPE = new RegExp(SHAPES.map(([shown]) => `(?:${shown})`).join("|"), "g");

/** Null when the output matches, else the first difference. */
export function compareOutput(
  shown: readonly string[],
  printed: readonly string[],
  ids: KnownIds,
): string | null {
  const real = printed.filter((line) => line.trim() !== "");
  let at = 0;
  let maySkip = false;
  for (const line of shown.filter((one) => one.trim() !== "")) {
    if (line.trim() === "...") {
      maySkip = true;
      continue;
    }
    const fits = real.findIndex((one, index) => index >= at && matches(line, one, ids));
    const found = real[at];
    if (fits === -1 && (maySkip || found === undefined)) return `shown, but not printed: ${line}`;
    if (fits !== at && !maySkip) return `shown:   ${line}\n  printed: ${found}`;
    at = fits + 1;
    maySkip = false;
  }
  const more = real[at];
  return more === undefined || maySkip ? null : `printed, but not shown: ${more}`;
}

/** Learns which real id a shown one stands for; later the same one must be there. */
function matches(shown: string, printed: string, ids: KnownIds): boolean {
  const names: string[] = [];
  let pattern = "";
  let from = 0;
  for (const found of shown.trim().matchAll(ANY_SHAPE)) {
    const [text] = found;
    if (new RegExp(`^${ID}$`).test(text)) names.push(text);
    pattern += escape(shown.trim().slice(from, found.index)) + shapeOf(text);
    from = found.index + text.length;
  }
  pattern += escape(shown.trim().slice(from));
  const match = new RegExp(`^${pattern}$`).exec(printed.trim());
  if (match === null) return false;
  return names.every((name, index) => {
    const real = match[index + 1] ?? "";
    const known = ids.get(name);
    if (known === undefined) ids.set(name, real);
    return known === undefined || known === real;
  });
}

function shapeOf(text: string): string {
  const shape = SHAPES.find(([shown]) => new RegExp(`^(?:${shown})$`).test(text));
  // A look-ahead needs the text after it: only the progress shape has one.
  return shape?.[1] ?? String.raw`[\d,]+`;
}

function escape(text: string): string {
  return text
    .replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll(/\s+/g, String.raw`\s+`);
}

/** A command from a page, with real ids in place of shown ones, even shortened ids. */
export function putRealIds(command: string, ids: KnownIds): string {
  return command.replaceAll(/\bb-[a-z2-7]{3,12}\b/g, (text) => {
    for (const [shown, real] of ids) {
      if (shown.startsWith(text)) return real.slice(0, text.length);
    }
    return text;
  });
}
