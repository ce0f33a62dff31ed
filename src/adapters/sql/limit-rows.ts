/** Reads the rows of operators' limits as values. */
import type { LimitChange, LimitSetting, LimitValue } from "../../core/limits/limit.ts";

export type SettingRow = Omit<LimitSetting, "value"> & { readonly value: string };
export type ChangeRow = Omit<LimitChange, "by" | "before" | "after"> & {
  readonly changed_by: string;
  readonly before: string | null;
  readonly after: string | null;
};

export function toSetting({ value, ...setting }: SettingRow): LimitSetting {
  return { ...setting, value: JSON.parse(value) as LimitValue };
}

export function toChange({ changed_by: by, before, after, ...change }: ChangeRow): LimitChange {
  return { ...change, by, before: readValue(before), after: readValue(after) };
}

function readValue(text: string | null): LimitValue | null {
  return text === null ? null : (JSON.parse(text) as LimitValue);
}
