/** The options of every source of records in a file. */
import { checkFlag, checkSize } from "./option-checks.ts";

export interface FileOptions {
  /**
   * The most bytes of one record, including its line end; default 1 MiB. A longer one is never
   * loaded: its item fails, and no other.
   */
  readonly itemBytesMax?: number;
  /** How much is read at once while slicing; default 1 MiB. */
  readonly bufferBytes?: number;
  /**
   * Every host that works on the batch finds the same file at this path, as on a shared disk;
   * default false. If workers may be on other hosts, a file that is not shared is frozen into the
   * store.
   */
  readonly shared?: boolean;
}

export const FILE_OPTION_NAMES = ["itemBytesMax", "bufferBytes", "shared"] as const;

const ITEM_BYTES = 1 << 20;
/** V8 has no text longer than 512 MiB, and a slice may have other items next to its longest. */
const ITEM_BYTES_MAX = 1 << 28;
const BUFFER_BYTES = 1 << 20;
const BUFFER_BYTES_MAX = 1 << 26;

export function checkFileOptions(source: string, options: FileOptions): Required<FileOptions> {
  return {
    itemBytesMax: checkSize(
      source,
      "itemBytesMax",
      options.itemBytesMax,
      ITEM_BYTES,
      ITEM_BYTES_MAX,
    ),
    bufferBytes: checkSize(
      source,
      "bufferBytes",
      options.bufferBytes,
      BUFFER_BYTES,
      BUFFER_BYTES_MAX,
    ),
    shared: checkFlag(source, "shared", options.shared),
  };
}
