/** Where a batch's items can come from, beside an array and any iterable. */
export { csv, type CsvOptions } from "./csv/csv.ts";
export { folder, type FolderItem, type FolderOptions } from "./folder.ts";
export { jsonl, type JsonlOptions } from "./jsonl/jsonl.ts";
export { keyset, type KeysetKey, type KeysetOptions } from "./paged/keyset.ts";
export { paged, type PagedOptions } from "./paged/paged.ts";
