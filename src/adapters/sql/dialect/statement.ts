// SQL that both stores run: written once, with numbered parameters (`$1`). Where the dialects
// differ, a comment names its own: `/*sqlite INDEXED BY item_dead*/` is a hint in SQLite and a
// comment in PostgreSQL, `/*postgres FOR UPDATE*/` the reverse.

export const DIALECTS = ["sqlite", "postgres"] as const;
export type Dialect = (typeof DIALECTS)[number];

export interface SharedStatement {
  readonly text: string;
}

/** What a statement's parameters may be. A list is one parameter: an array, or JSON. */
export type Value =
  | string
  | number
  | null
  | Uint8Array
  | readonly (string | number | null | Uint8Array)[];

const MARK = /\/\*(sqlite|postgres) ([\s\S]*?)\*\//gu;

export function statement(text: string): SharedStatement {
  return { text };
}

/** For a value that is any of those that a query finds: `position ${composeAnyOf("SELECT ...")}`. */
export function composeAnyOf(select: string): string {
  return `/*sqlite IN (*//*postgres = ANY(ARRAY(*/${select}/*sqlite )*//*postgres ))*/`;
}

/** The text of one dialect. */
export function renderStatement({ text }: SharedStatement, dialect: Dialect): string {
  return text.replace(MARK, (_mark, of: Dialect, part: string) => (of === dialect ? part : ""));
}
