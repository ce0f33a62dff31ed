/** Limits that operators set, on the reference model. */
import type { Act } from "../../core/batch/batch.ts";
import { canonicalize } from "../../core/base/canonical-json.ts";
import { nameCapScope } from "../../core/limits/caps.ts";
import type {
  LimitChange,
  LimitSetting,
  LimitTarget,
  LimitValue,
} from "../../core/limits/limit.ts";
import type { Clock } from "../../ports/clock.ts";
import type { LimitRequest } from "../../ports/store/operator-store.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import { nameLimit, type State } from "./state.ts";

export class LimitSettings {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #permits: ConcurrencyPermits;

  constructor(state: State, clock: Clock, permits: ConcurrencyPermits) {
    this.#state = state;
    this.#clock = clock;
    this.#permits = permits;
  }

  set({ value, ...target }: LimitRequest, { by, why }: Act): boolean {
    const { kind, scope, name } = target;
    const before = this.#state.limits.get(nameLimit(target))?.value ?? null;
    if (write(before) === write(value)) return false;
    this.#write(target, value);
    const seq = this.#state.limitChanges.length + 1;
    const at = this.#clock.wallMs();
    this.#state.limitChanges.push({ seq, at, by, why, kind, scope, name, before, after: value });
    if (target.kind === "cap" && value === null) {
      this.#permits.forget(nameCapScope(target.scope, name), true);
    }
    return true;
  }

  #write(target: LimitTarget, value: LimitValue | null): void {
    const { kind, scope, name } = target;
    if (value === null) this.#state.limits.delete(nameLimit(target));
    else this.#state.limits.set(nameLimit(target), { kind, scope, name, value });
  }

  list(): LimitSetting[] {
    return [...this.#state.limits.values()].toSorted((a, b) =>
      `${a.kind}/${a.scope}/${a.name}` < `${b.kind}/${b.scope}/${b.name}` ? -1 : 1,
    );
  }

  listChanges(afterSeq: number, limit: number): LimitChange[] {
    return this.#state.limitChanges.filter(({ seq }) => seq > afterSeq).slice(0, limit);
  }
}

function write(value: LimitValue | null): string {
  return canonicalize(value);
}
