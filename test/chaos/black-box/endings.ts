/** A batch ends once in each drive, records that once, and each subscriber gets exactly that. */
import { complain, type Evidence, type RecordedEvent } from "./evidence.ts";

export function checkEndings({ status }: Evidence): string[] {
  const { events, drive } = status;
  const endings = events.filter(({ type }) => type === "batch.ended");
  const drives = endings.map(({ data }) => data["drive"]);
  const gaps = events.filter((_, at) => !followsOn(events, at)).map(({ seq }) => seq);
  const last = endings.at(-1);
  return [
    ...complain("no ending", endings.length === 0 ? [status.state] : []),
    ...complain("ended more than once in a drive", findRepeats(drives)),
    ...complain(
      "ended in a drive that did not exist",
      drives.filter((one) => Number(one) > drive),
    ),
    ...complain(
      "reopened without a redrive",
      countReopenings(events) + 1 < endings.length ? drives : [],
    ),
    ...complain("events are missing", gaps),
    ...complain("the event and the status differ", last === undefined ? [] : compare(last, status)),
    ...checkLastWords(events),
  ];
}

/** Records about items share the numbering of events, so there may be gaps between events. */
function followsOn(events: readonly RecordedEvent[], at: number): boolean {
  const before = events[at - 1]?.seq ?? 0;
  const seq = events[at]?.seq ?? 0;
  const isKept = events[0]?.data["itemLedger"] === true && at > 0;
  return isKept ? seq > before : seq === before + 1;
}

/** After the ending nothing is recorded except the release of the lane. */
function checkLastWords(events: readonly RecordedEvent[]): string[] {
  const types = events.map(({ type }) => type);
  const after = types.slice(types.lastIndexOf("batch.ended") + 1);
  return complain(
    "happened after the ending",
    after.filter((type) => type !== "batch.released"),
  );
}

/** At least once, in order, nothing else: without repeats it equals what was recorded. */
export function checkDeliveries({ status, delivered }: Evidence): string[] {
  if (delivered === null) return [];
  const ours = delivered.filter(({ batch }) => batch === status.batch);
  const misnamed = ours.filter(({ id, seq }) => id !== `${status.batch}/${seq}`);
  const first = [...new Map(ours.map((event) => [event.id, event])).values()];
  const outOfOrder = first.filter(({ seq }, at) => at > 0 && seq < (first[at - 1]?.seq ?? 0));
  const known = new Set(first.map(({ seq }) => seq));
  const recorded = new Map(status.events.map((event) => [event.seq, event.type]));
  const invented = first.filter(({ seq, type }) => recorded.get(seq) !== type);
  const missed = status.events.filter(({ seq }) => !known.has(seq));
  return [
    ...complain("delivered with a wrong id", misnamed),
    ...complain("delivered out of order", outOfOrder),
    ...complain("delivered but never recorded", invented),
    ...complain("recorded but never delivered", missed),
  ];
}

function compare(ending: RecordedEvent, status: Evidence["status"]): unknown[] {
  const said = ending.data["counts"] as Readonly<Record<string, number>> | undefined;
  const differs = Object.entries(said ?? { counts: Number.NaN }).filter(
    ([name, count]) => status[name as "planned"] !== count,
  );
  return ending.data["state"] === status.state && differs.length === 0
    ? []
    : [{ event: ending.data, state: status.state }];
}

function countReopenings(events: readonly RecordedEvent[]): number {
  return events.filter(({ type }) => type === "batch.reopened").length;
}

function findRepeats(values: readonly unknown[]): unknown[] {
  return values.filter((value, at) => values.indexOf(value) !== at);
}
