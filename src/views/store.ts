/** The store itself: a copy of it, its upgrade, and the result of the doctor. */

export interface CopyView {
  readonly from: string;
  readonly to: string;
  /** Of the new file; null on a server. */
  readonly bytes: number | null;
  /** Rows by table; null for a file. */
  readonly rows: Readonly<Record<string, number>> | null;
}

export function viewCopy(
  from: string,
  to: string,
  { bytes = null, rows = null }: Partial<Pick<CopyView, "bytes" | "rows">>,
): CopyView {
  return { from, to, bytes, rows };
}

export interface CheckView {
  readonly name: string;
  readonly level: "ok" | "warn" | "bad";
  readonly text: string;
  /** What to do; null when it is ok. */
  readonly remedy: string | null;
}

export function viewCheck(
  check: Omit<CheckView, "remedy"> & { readonly remedy?: string },
): CheckView {
  const { name, level, text, remedy = null } = check;
  return { name, level, text, remedy };
}
