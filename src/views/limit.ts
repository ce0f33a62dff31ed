/** Limits: what operators set, what batches declare, and how much is used; and closed keys. */
import { CAP_SCOPES } from "../core/limits/caps.ts";
import {
  type LimitChange,
  type LimitSetting,
  type LimitTarget,
  type LimitValue,
  nameTenant,
} from "../core/limits/limit.ts";
import { formatInstant } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import type { Permit } from "../ports/store/worker-store.ts";
import type { ClosedKey } from "../runtime/engine/key-closing.ts";

export interface LimitView {
  readonly kind: LimitSetting["kind"];
  readonly scope: LimitSetting["scope"];
  readonly name: string;
  /** The effective value. */
  readonly value: LimitValue;
  /** An operator's; null where the pipeline's applies. */
  readonly set: LimitValue | null;
  /** As the newest unfinished batch declares it. */
  readonly declared: LimitValue | null;
  /** For a cap: how many handler calls are running. */
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
    .map(({ kind, scope, name, set, declared }) => ({
      kind,
      scope,
      name,
      value: set ?? declared ?? 0,
      set,
      declared,
      used: kind === "cap" ? (used.get(`${scope}/${name}`) ?? 0) : null,
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

export interface LimitChangeView extends Omit<LimitChange, "at"> {
  readonly at: string;
}

export function viewLimitChange({ at, ...change }: LimitChange): LimitChangeView {
  return { ...change, at: formatInstant(at) };
}

export interface LimitSetView {
  readonly kind: LimitTarget["kind"];
  readonly scope: LimitTarget["scope"];
  readonly name: string;
  /** Null when it was cleared. */
  readonly value: LimitValue | null;
  /** False when it was already so. */
  readonly changed: boolean;
}

export function viewLimitSet(
  { kind, scope, name }: LimitTarget,
  value: LimitValue | null,
  changed: boolean,
): LimitSetView {
  return { kind, scope, name, value, changed };
}

/** A closed key of a rate; an empty key for a rate without keys. */
export interface ClosedKeyView {
  readonly rate: string;
  readonly key: string;
  readonly forMs: number;
}

export function viewClosedKey({ rate, key, forMs }: ClosedKey): ClosedKeyView {
  return { rate, key, forMs: Math.ceil(forMs) };
}

export interface KeyClosedView extends ClosedKeyView {
  readonly closed: true;
}

export function viewKeyClosed(closed: ClosedKey): KeyClosedView {
  return { ...viewClosedKey(closed), closed: true };
}

export interface KeyOpenedView {
  readonly rate: string;
  readonly key: string;
  readonly closed: false;
  /** False when it was not closed. */
  readonly changed: boolean;
}

export function viewKeyOpened(
  { rate, key }: Pick<ClosedKey, "rate" | "key">,
  changed: boolean,
): KeyOpenedView {
  return { rate, key, closed: false, changed };
}
