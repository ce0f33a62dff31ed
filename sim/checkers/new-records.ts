/** The records that were written since the last look, each parsed once for all checkers. */
import type { StoredRecord } from "../../src/ports/store/query-store.ts";
import type { Scene } from "./checker.ts";

export interface NewRecord {
  readonly batch: string;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const parsed = new WeakMap<StoredRecord, NewRecord>();

/** By position: retention may delete older ones. */
export function readNewRecords({ world }: Scene): () => NewRecord[] {
  let position = 0;
  return () => {
    const { records } = world.store.state;
    let from = records.length;
    while (from > 0 && (records[from - 1]?.position ?? 0) > position) from--;
    const fresh = records.slice(from);
    position = fresh.at(-1)?.position ?? position;
    return fresh.map(parse);
  };
}

function parse(record: StoredRecord): NewRecord {
  const known = parsed.get(record);
  if (known !== undefined) return known;
  const { data } = JSON.parse(record.body) as { data: Record<string, unknown> };
  const fresh = { batch: record.batch, type: record.type, data };
  parsed.set(record, fresh);
  return fresh;
}
