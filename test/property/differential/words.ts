/** Calls of a store and their answers in words, short enough to read. */
import type { TokenGrant } from "../../../src/core/limits/bucket.ts";
import type { StoreVerb } from "../../../src/ports/store/store-verbs.ts";
import { toWords } from "../../support/outcome-words.ts";

/** `plan({batch: b1, afterChunks: 2, ...})`, without empty fields. */
export function describeCall(verb: StoreVerb, args: readonly unknown[]): string {
  return `${verb}(${args.map(describeValue).join(", ")})`;
}

function describeValue(value: unknown): string {
  if (ArrayBuffer.isView(value)) return describeBytes(value);
  if (Array.isArray(value)) return `[${value.map(describeValue).join(", ")}]`;
  if (typeof value !== "object" || value === null) return describePlain(value);
  const parts = Object.entries(value)
    .filter(([, part]) => part !== null && !(Array.isArray(part) && part.length === 0))
    .map(([name, part]) => `${name}: ${describeValue(part)}`);
  return `{${parts.join(", ")}}`;
}

function describePlain(value: unknown): string {
  return typeof value === "string" && /^[\w/.-]+$/.test(value) ? value : JSON.stringify(value);
}

/** Outcome maps as one character an item: pending, succeeded, skipped, failed. */
function describeBytes({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const letters = { pending: ".", succeeded: "S", skipped: "k", failed: "F" };
  return toWords(bytes, bytes.length * 4)
    .map((word) => letters[word])
    .join("");
}

/** The kind of an answer, for the printed calls and for the statistics of a run. */
export function nameOutcome(
  verb: StoreVerb,
  outcome: { readonly answer: unknown } | { readonly threw: string },
): string {
  if ("threw" in outcome) return `throws ${outcome.threw}`;
  const { answer } = outcome;
  if (verb === "work") return nameWork(answer as WorkAnswer);
  if (verb === "sweep") return nameSweep(answer as SweepAnswer);
  if (verb === "prune")
    return nameCounts(answer as Counted, ["scratched", "removed", "messages", "owed"]);
  if (verb === "draw") return nameDraw(answer as readonly TokenGrant[]);
  if (verb === "claimContents" && Array.isArray(answer)) return [...new Set(answer)].join("+");
  if (answer === null) return "nothing";
  if (Array.isArray(answer)) return answer.length === 0 ? "none" : "some";
  if (typeof answer === "object") return nameKind(answer as Counted);
  if (typeof answer === "number") return answer === 0 ? "0" : "a number";
  return JSON.stringify(answer) ?? "done";
}

type Counted = { readonly [name: string]: string | number | undefined };
type WorkAnswer = { readonly reports: readonly string[] } & {
  readonly [Name in "leased" | "ended"]: readonly unknown[];
} & { readonly permits: { readonly held: readonly unknown[] } | null };
type SweepAnswer = { readonly lostLeases: number; readonly tended: number } & {
  readonly ended: readonly unknown[];
};

function nameKind({ kind, why, revived, left, busy }: Counted): string {
  const more = nameCounts({ revived, left, busy }, ["revived", "left", "busy"]);
  const detail = why ?? (more === "nothing" ? "" : more);
  return [kind ?? "some", detail].filter((word) => word !== "").join(" ");
}

function nameCounts(counts: Counted, names: readonly string[]): string {
  const some = names.filter((name) => Number(counts[name] ?? 0) > 0);
  return some.length === 0 ? "nothing" : some.join("+");
}

function nameWork({ reports, leased, ended, permits }: WorkAnswer): string {
  const parts = [
    ...new Set(reports),
    ...(leased.length > 0 ? ["leased"] : []),
    ...(permits !== null && permits.held.length > 0 ? ["permits"] : []),
    ...(ended.length > 0 ? ["ended"] : []),
  ];
  return parts.length === 0 ? "nothing" : parts.join("+");
}

function nameDraw(grants: readonly TokenGrant[]): string {
  return [
    ...new Set(grants.map(({ open, waitReason }) => (open ? "open" : (waitReason ?? "granted")))),
  ]
    .toSorted()
    .join("+");
}

function nameSweep({ lostLeases, tended, ended }: SweepAnswer): string {
  return nameCounts({ lostLeases, tended, ended: ended.length }, ["lostLeases", "tended", "ended"]);
}
