/** Every item has exactly one outcome that never changes, and the counts and the ending agree. */
import { complain, type Evidence, type ItemCounts, type ResultLine } from "./evidence.ts";

const ENDED_EARLY = new Set(["failed", "cancelled", "expired"]);

/** planned = succeeded + skipped + failed + cancelled + pending, in every output. */
export function checkConservation({ status, looks, items }: Evidence): string[] {
  const all = [...looks.map((look) => look.status), status];
  const broken = all
    .flatMap((line): ItemCounts[] => [line, ...line.steps])
    .filter((counts) => sumCounts(counts) !== counts.planned);
  const rises = all.filter(
    (line, at) => at > 0 && line.succeeded < (all[at - 1]?.succeeded ?? 0) && line.drive === 1,
  );
  return [
    ...complain("counts do not add up", broken.map(readCounts)),
    ...complain("the count of successes fell", rises.map(readCounts)),
    ...complain("the end left items pending", status.pending === 0 ? [] : [readCounts(status)]),
    ...complain(
      `the input has ${items} items`,
      status.planned === items ? [] : [readCounts(status)],
    ),
  ];
}

/** Nothing is lost or duplicated: the exports account for every item of the input. */
export function checkOutcomes(evidence: Evidence): string[] {
  const { status, results, letters, items, runs } = evidence;
  const told = Array.from({ length: items }, () => 0);
  const tell = (item: number): number => (told[item] = (told[item] ?? 0) + 1);
  const strange: unknown[] = [];
  const twice: unknown[] = [];
  for (const { item, key } of results) {
    if (item >= items || key !== `i${item}`) strange.push({ item, key });
    else if (tell(item) > 1) twice.push(item);
  }
  for (const { item } of letters) {
    if (item >= items) strange.push({ item });
    else if (tell(item) > 1) twice.push(item);
  }
  // Skipped items are in no export; the handlers' lines say which they are.
  const skips = new Set(runs.filter(({ answer }) => answer === "skip").map(({ item }) => item));
  const untold = [...told.keys()].filter((item) => told[item] === 0);
  const missing = untold.filter((item) => !skips.has(item));
  const silent = status.skipped + status.cancelled;
  return [
    ...complain("not an item of the input", strange),
    ...complain("more than one outcome", twice),
    ...complain("lost: in no export", missing.length > status.cancelled ? missing : []),
    ...complain("counts differ from the exports", [
      ...differ("succeeded", status.succeeded, results.length),
      ...differ("failed", status.failed, letters.length),
      ...differ("skipped and cancelled", silent, untold.length),
    ]),
  ];
}

/** The content of an earlier export stands: the same value for ever, and never another start. */
export function checkFinality({ looks, results, runs }: Evidence): string[] {
  const now = new Map(results.map((line) => [line.item, describeResult(line)]));
  const changed: unknown[] = [];
  const knownAt = new Map<number, number>();
  for (const { at, results: earlier } of looks) {
    for (const line of earlier ?? []) {
      const before = describeResult(line);
      if (now.get(line.item) !== before) {
        changed.push({ item: line.item, before, now: now.get(line.item) ?? null });
      }
      if (!knownAt.has(line.item)) knownAt.set(line.item, at);
    }
  }
  const again = runs.filter(
    ({ item, startAt, isCaught }) => !isCaught && startAt > (knownAt.get(item) ?? Infinity),
  );
  return [
    ...complain("an outcome changed after it was reported", changed),
    ...complain("started again after its outcome was reported", again),
  ];
}

/** The state of the ending fits the counts. */
export function checkHonesty({ status, letters }: Evidence): string[] {
  const { state, failed, cancelled, pending, reason } = status;
  const lies: string[] = [];
  if (state === "succeeded" && (failed > 0 || cancelled > 0 || letters.length > 0)) {
    lies.push("succeeded although items failed");
  } else if (state === "completed_with_errors" && (failed === 0 || cancelled > 0)) {
    lies.push("completed_with_errors without errors, or not completed");
  } else if (ENDED_EARLY.has(state) && reason === undefined && status.state !== "cancelled") {
    lies.push("ended early without a reason");
  }
  const isEnded = ENDED_EARLY.has(state) || /^(succeeded|completed_with_errors)$/.test(state);
  if (!isEnded) lies.push("not ended");
  if (isEnded && pending > 0) lies.push("ended with items pending");
  return lies.flatMap((lie) => complain(lie, [{ state, ...readCounts(status) }]));
}

function describeResult({ value: { by, fence, attempt } }: ResultLine): string {
  return `${by}/${fence}/${attempt}`;
}

function differ(what: string, said: number, exported: number): unknown[] {
  return said === exported ? [] : [{ what, said, exported }];
}

function sumCounts({ succeeded, skipped, failed, cancelled, pending }: ItemCounts): number {
  return succeeded + skipped + failed + cancelled + pending;
}

function readCounts(counts: ItemCounts): ItemCounts {
  const { planned, succeeded, skipped, failed, cancelled, pending } = counts;
  return { planned, succeeded, skipped, failed, cancelled, pending };
}
