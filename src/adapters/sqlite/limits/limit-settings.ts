/** Limits that operators set, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import type { Act } from "../../../core/batch/batch.ts";
import { canonicalize } from "../../../core/base/canonical-json.ts";
import { nameCapScope } from "../../../core/limits/caps.ts";
import type { LimitChange, LimitSetting } from "../../../core/limits/limit.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { LimitRequest } from "../../../ports/store/operator-store.ts";
import { type ChangeRow, type SettingRow, toChange, toSetting } from "../../sql/limit-rows.ts";
import type { Connection } from "../connection/connection.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";

export class LimitSettings {
  readonly #clock: Clock;
  readonly #permits: ConcurrencyPermits;
  readonly #find: StatementSync;
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  readonly #insertChange: StatementSync;
  readonly #selectAll: StatementSync;
  readonly #selectChanges: StatementSync;

  constructor(connection: Connection, clock: Clock, permits: ConcurrencyPermits) {
    this.#clock = clock;
    this.#permits = permits;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    const named = "WHERE kind = ? AND scope = ? AND name = ?";
    this.#find = prepare(`SELECT value FROM limit_setting ${named}`);
    this.#put = prepare(
      `INSERT INTO limit_setting (kind, scope, name, value) VALUES (?, ?, ?, ?)
       ON CONFLICT (kind, scope, name) DO UPDATE SET value = excluded.value`,
    );
    this.#drop = prepare(`DELETE FROM limit_setting ${named}`);
    this.#insertChange = prepare(
      `INSERT INTO limit_change (at, changed_by, why, kind, scope, name, before, after)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#selectAll = prepare(
      "SELECT kind, scope, name, value FROM limit_setting ORDER BY kind, scope, name",
    );
    this.#selectChanges = prepare(
      `SELECT seq, at, changed_by, why, kind, scope, name, before, after FROM limit_change
       WHERE seq > ? ORDER BY seq LIMIT ?`,
    );
  }

  set(request: LimitRequest, { by, why }: Act): boolean {
    const { kind, scope, name, value } = request;
    const row = this.#find.get(kind, scope, name) as { value: string } | undefined;
    const before = row?.value ?? null;
    const after = value === null ? null : canonicalize(value);
    if (before === after) return false;
    if (after === null) this.#drop.run(kind, scope, name);
    else this.#put.run(kind, scope, name, after);
    this.#insertChange.run(this.#clock.wallMs(), by, why, kind, scope, name, before, after);
    if (request.kind === "cap" && value === null) {
      this.#permits.forget(nameCapScope(request.scope, name), true);
    }
    return true;
  }

  list(): LimitSetting[] {
    return (this.#selectAll.all() as unknown as SettingRow[]).map(toSetting);
  }

  listChanges(afterSeq: number, limit: number): LimitChange[] {
    return (this.#selectChanges.all(afterSeq, limit) as unknown as ChangeRow[]).map(toChange);
  }
}
