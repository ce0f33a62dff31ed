/** Limits as people and machines are shown them: what operators set, what batches declare, its use. */
import { CAP_SCOPES } from "../../core/limits/caps.ts";
import {
  type LimitChange,
  type LimitSetting,
  type LimitTarget,
  type LimitValue,
  nameTenant,
} from "../../core/limits/limit.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import type { Permit } from "../../ports/store/working.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

export interface LimitView {
  readonly kind: LimitSetting["kind"];
  readonly scope: LimitSetting["scope"];
  readonly name: string;
  /** What counts. */
  readonly value: LimitValue;
  /** An operator's; null where the pipeline's counts. */
  readonly set: LimitValue | null;
  /** As the newest unfinished batch declares it. */
  readonly declared: LimitValue | null;
  /** Of a cap: how many handler calls are taken. */
  readonly used: number | null;
}

type Known = Omit<LimitView, "value" | "used">;

/** `batches`: those that have not ended, the newest first. */
export function viewLimits(
  settings: readonly LimitSetting[],
  batches: readonly BatchSnapshot[],
  use: readonly Permit[],
): LimitView[] {
  const known = new Map<string, Known>();
  for (const { kind, scope, name, value } of settings) {
    known.set(nameLimit(kind, scope, name), { kind, scope, name, set: value, declared: null });
  }
  for (const { kind, scope, name, value } of batches.flatMap(listDeclared)) {
    const key = nameLimit(kind, scope, name);
    const one = known.get(key) ?? { kind, scope, name, set: null, declared: null };
    if (one.declared === null) known.set(key, { ...one, declared: value });
  }
  const used = new Map(use.map(({ scope, slots }) => [scope, slots]));
  return [...known.values()]
    .toSorted((a, b) => compareNames(a, b))
    .map((one) => ({
      ...one,
      value: one.set ?? one.declared ?? 0,
      used: one.kind === "cap" ? (used.get(`${one.scope}/${one.name}`) ?? 0) : null,
    }));
}

function nameLimit(kind: string, scope: string, name: string): string {
  return `${kind} ${scope} ${name}`;
}

function compareNames(a: Known, b: Known): number {
  return nameLimit(a.kind, a.scope, a.name) < nameLimit(b.kind, b.scope, b.name) ? -1 : 1;
}

function listDeclared({ id, lane, pipeline, tenant, settings }: BatchSnapshot): LimitSetting[] {
  const { caps = {}, weight } = settings;
  const names = { batch: id, lane, pipeline };
  const declared = CAP_SCOPES.flatMap((scope): LimitSetting[] => {
    const value = caps[scope];
    return value === undefined ? [] : [{ kind: "cap", scope, name: names[scope], value }];
  });
  if (weight === undefined) return declared;
  const name = nameTenant(pipeline, tenant);
  return [...declared, { kind: "weight", scope: "tenant", name, value: weight }];
}

export function renderLimits(limits: readonly LimitView[], screen: Screen): string[] {
  const columns: Column[] = [
    { title: "KIND" },
    { title: "OF" },
    { title: "NAME", elastic: true },
    { title: "LIMIT", align: "right", paint: screen.colours.cyan },
    { title: "DECLARED", align: "right" },
    { title: "IN USE", align: "right" },
  ];
  const rows = limits.map((one) => [
    one.kind,
    one.scope,
    makeInert(one.name),
    formatLimit(one.value),
    one.set === null ? "the same" : formatLimit(one.declared),
    one.used === null ? "-" : formatCount(one.used),
  ]);
  return renderTable(columns, rows, screen);
}

export function formatLimit(value: LimitValue | null): string {
  if (value === null) return "-";
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 6 });
  const { perSecond, burst } = value;
  return `${perSecond.toLocaleString("en", { maximumFractionDigits: 6 })}/s, burst ${burst}`;
}

/** "the cap of the lane north" */
export function describeLimit({ kind, scope, name }: LimitTarget): string {
  if (kind === "rate") return `the rate of ${name}`;
  return `the ${kind} of the ${scope} ${name}`;
}

export function viewChange({ at, ...change }: LimitChange): object {
  return { ...change, at: formatInstant(at) };
}

export function renderChanges(changes: readonly LimitChange[], screen: Screen): string[] {
  const columns: Column[] = [
    { title: "AT" },
    { title: "BY" },
    { title: "WHAT" },
    { title: "BEFORE", align: "right" },
    { title: "AFTER", align: "right" },
    { title: "WHY", elastic: true },
  ];
  const rows = changes.map(({ at, by, why, kind, scope, name, before, after }) => [
    formatInstant(at),
    makeInert(by),
    makeInert(kind === "rate" ? `rate ${name}` : nameLimit(kind, scope, name)),
    formatLimit(before),
    formatLimit(after),
    makeInert(why ?? "-"),
  ]);
  return renderTable(columns, rows, screen);
}
