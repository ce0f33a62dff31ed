/**
 * Appends events or messages to a file, one line of JSON each, on disk when delivered. The file is
 * opened for each append, so a rotated file is not touched. A crash may leave half a line: the same
 * event is delivered again and completes it.
 */
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { RecordType } from "../core/batch/batch.ts";
import { OptionProblems } from "../core/events/option-problems.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { Sink } from "../ports/sink.ts";
import { type Delivered, writeJson } from "./event-json.ts";
import { DELIVERY_OPTIONS, type DeliveryOptions, throwIfBad } from "./sink-options.ts";

export interface FileSinkOptions extends DeliveryOptions {
  /** Created with its folder if missing. */
  readonly path: string;
}

const NAME = "fileSink";
/** For a full disk or a folder without write access: the line is retried until that is fixed. */
const RETRY: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, baseMs: 500, capMs: 30_000 };
const NEWLINE = 0x0a;

export function fileSink(options: FileSinkOptions): Sink {
  const problems = new OptionProblems();
  const given = problems.readOptions(options, [...DELIVERY_OPTIONS, "path"]);
  const { path } = given;
  const isPath = typeof path === "string" && path !== "" && !path.includes("\0");
  if (!isPath) problems.add("path must be the path of a file");
  const events = problems.readEvents(given["events"]);
  const retry = problems.readRetry(given["attempts"], given["backoff"], RETRY);
  throwIfBad(problems, NAME);
  // Absolute, so that a later change of directory has no effect.
  return new FileSink(resolve(path as string), events, retry);
}

class FileSink implements Sink {
  readonly kind = "file";
  readonly target: string;
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;

  constructor(path: string, events: readonly RecordType[] | null, retry: RetryPolicy) {
    this.target = path;
    this.events = events;
    this.retry = retry;
  }

  async deliver(event: Delivered): Promise<void> {
    const line = Buffer.from(`${writeJson(event)}\n`);
    await mkdir(dirname(this.target), { recursive: true });
    const file = await open(this.target, "a+");
    let size: number;
    try {
      ({ size } = await file.stat());
      const missing = planAppend(await readTail(file, size, line.length + 1), size, line);
      if (missing.length > 0) await file.appendFile(missing);
      await file.sync();
    } finally {
      await file.close();
    }
    if (size === 0) await syncFolder(dirname(this.target));
  }
}

async function readTail(file: FileHandle, size: number, bytesMax: number): Promise<Buffer> {
  const bytes = Math.min(size, bytesMax);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, size - bytes);
  return buffer.subarray(0, bytesRead);
}

/**
 * What to append so that the line exists: nothing if the file ends with it, its rest if a crash has
 * left its beginning, or a separate line after anything else. `tail` is the end of a file of `size`
 * bytes, at least one byte longer than the line if the file is that long.
 */
export function planAppend(tail: Buffer, size: number, line: Buffer): Buffer {
  if (size === 0) return line;
  const isEnded = tail.at(-1) === NEWLINE;
  const before = tail.lastIndexOf(NEWLINE, isEnded ? -2 : -1);
  // The last line starts earlier than this one could: it is another.
  const isOther = before === -1 && tail.length < size;
  const last = isOther ? null : tail.subarray(before + 1);
  if (isEnded) return last?.equals(line) === true ? line.subarray(line.length) : line;
  const isBegun = last !== null && line.subarray(0, last.length).equals(last);
  return isBegun ? line.subarray(last.length) : Buffer.concat([Buffer.from("\n"), line]);
}

/** A new file is on disk only after its folder is synced. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
