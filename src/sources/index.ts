/** Sources for a batch's items, besides an array and any iterable. */
export { csv } from "./csv/csv.ts";
export { folder, type FolderItem } from "./folder.ts";
export { jsonl } from "./jsonl/jsonl.ts";
export { keyset } from "./paged/keyset.ts";
export { paged } from "./paged/paged.ts";
