/**
 * Neighbouring chunks of a step with the same values become one entry of a list: most chunks that
 * are leased together end together with the same result, so a thousand of them are written, sent
 * and read as one.
 */
export interface Place {
  /** Its id or its number. */
  readonly batch: string | number;
  readonly step: number;
  readonly chunk: number;
}

/** A run of neighbours has at least one entry; a repeated chunk starts a new run. */
export type Run<T> = readonly [T, ...T[]];

export function findRuns<T extends Place>(
  entries: readonly T[],
  areAlike: (one: T, other: T) => boolean,
): Run<T>[] {
  const runs: [T, ...T[]][] = [];
  let run: [T, ...T[]] | undefined;
  let last: T | undefined;
  for (const entry of entries.toSorted(comparePlaces)) {
    if (run === undefined || last === undefined || !isNext(last, entry) || !areAlike(last, entry)) {
      run = [entry];
      runs.push(run);
    } else {
      run.push(entry);
    }
    last = entry;
  }
  return runs;
}

function comparePlaces(a: Place, b: Place): number {
  if (a.batch !== b.batch) return a.batch < b.batch ? -1 : 1;
  return a.step - b.step || a.chunk - b.chunk;
}

function isNext(last: Place, { batch, step, chunk }: Place): boolean {
  return last.batch === batch && last.step === step && last.chunk + 1 === chunk;
}

/**
 * Rows of chunks, as one row for all that differ only in their position. `rows` is a query that
 * returns `chunk`, `start`, `size` and the columns in common; `more` is an aggregate.
 */
export function composeAlike(rows: string, common: string, more = ""): string {
  const origin = "start - chunk::bigint * size";
  return `SELECT json_agg(chunk) AS chunks, ${origin} AS origin, size, ${common}${more}
   FROM (${rows}) AS found GROUP BY ${origin}, size, ${common}`;
}

/** One row of `composeAlike`. */
export interface AlikeRow {
  /** Their numbers, as JSON. */
  readonly chunks: string;
  /** Where a chunk with the number 0 would start. */
  readonly origin: number;
  readonly size: number;
}

interface ChunkPlace {
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
}

/** The chunks of such a row. */
export function listPlaces({ chunks, origin, size }: AlikeRow): ChunkPlace[] {
  return (JSON.parse(chunks) as number[]).map((chunk) => {
    const start = origin + chunk * size;
    return { chunk, start, finish: start + size };
  });
}
