/** The columns that are read of a batch and of an item, in this store's SQL. */
import { PAUSE_OF_BATCH as PAUSE } from "../../sql/rules/columns.ts";
import { renderStatement } from "../../sql/dialect/statement.ts";
import { FRESH_LIMIT as FRESH } from "../../sql/rules/steps.ts";

export { ITEM_COLUMNS } from "../../sql/rules/columns.ts";

/** The pause that applies to a batch `b`, the narrowest first, as JSON; NULL when it may run. */
export const PAUSE_OF_BATCH = renderStatement({ text: PAUSE }, "sqlite");

/** How many fresh chunks may be leased. */
export const FRESH_LIMIT = renderStatement({ text: FRESH }, "sqlite");
