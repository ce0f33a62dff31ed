/**
 * Sends a file with its fault: whole, late, cut, in drops or not at all. Ends with the connection:
 * nothing continues for a client that has left.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";
import { unreachable } from "./unreachable.ts";
import type { Fault } from "./faults.ts";

export interface Delivery {
  readonly file: string;
  /** Whether the answer states its length. */
  readonly sized: boolean;
  /** Not a status: that one has no document. */
  readonly fault: Exclude<Fault, { readonly kind: "status" }>;
}

const DRIPS_PER_SECOND = 2;
const PIECE_BYTES = 64 * 2 ** 10;

export function sendDocument(response: ServerResponse, delivery: Delivery): void {
  const left = new AbortController();
  response.once("close", () => left.abort());
  deliver(response, delivery, left.signal).catch((error: unknown) => {
    if (left.signal.aborted) return;
    // An unreadable file is our own mistake, which a test must not mistake for a planned fault.
    response.destroy(error instanceof Error ? error : new Error(String(error)));
    process.emitWarning(`portal: ${delivery.file} was not sent: ${String(error)}`);
  });
}

async function deliver(
  response: ServerResponse,
  { file, sized, fault }: Delivery,
  left: AbortSignal,
): Promise<void> {
  // Nothing waits here: the client or `close` ends the connection.
  if (fault.kind === "hang") return;
  if (fault.kind === "latency") await wait(fault.latencyMs, undefined, { signal: left });
  const handle = await open(file, "r");
  try {
    await sendFile(response, { handle, sized, fault, left });
  } finally {
    await handle.close();
  }
}

interface OpenDelivery {
  readonly handle: FileHandle;
  readonly sized: boolean;
  readonly fault: Exclude<Delivery["fault"], { readonly kind: "hang" }>;
  readonly left: AbortSignal;
}

async function sendFile(
  response: ServerResponse,
  { handle, sized, fault, left }: OpenDelivery,
): Promise<void> {
  const { size } = await handle.stat();
  const begin = () =>
    response.writeHead(200, {
      "content-type": "application/pdf",
      ...(sized && { "content-length": String(size) }),
    });
  switch (fault.kind) {
    case "none":
    case "latency":
      begin();
      return pipeline(handle.createReadStream({ autoClose: false }), response, { signal: left });
    case "reset":
      // An answer without a body is complete with its head and could not be cut after it.
      if (size > 0) await sendPart(begin(), handle, Math.floor(size * fault.share));
      response.socket?.resetAndDestroy();
      return;
    case "drip":
      if (size > 0) await drip(begin(), handle, { size, left, ...fault });
      return;
    default:
      return unreachable(fault);
  }
}

/** Each piece is sent to the system before the next, so that a cut does not take them back. */
async function sendPart(
  response: ServerResponse,
  handle: FileHandle,
  lengthBytes: number,
): Promise<void> {
  response.flushHeaders();
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let sentBytes = 0; sentBytes < lengthBytes; ) {
    const wanted = Math.min(piece.length, lengthBytes - sentBytes);
    const { bytesRead } = await handle.read(piece, 0, wanted);
    await writeThrough(response, piece.subarray(0, bytesRead));
    sentBytes += bytesRead;
  }
}

async function writeThrough(response: ServerResponse, bytes: Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  response.write(bytes, (error) => (error ? reject(error) : resolve()));
  await promise;
}

/** The last byte is never sent: otherwise a short document would arrive in spite of its fault. */
async function drip(
  response: ServerResponse,
  handle: FileHandle,
  options: { readonly size: number; readonly bytesPerSecond: number; readonly left: AbortSignal },
): Promise<void> {
  const { size, bytesPerSecond, left } = options;
  const drop = Buffer.alloc(Math.max(1, Math.floor(bytesPerSecond / DRIPS_PER_SECOND)));
  for (let sentBytes = 0; sentBytes < size - 1; ) {
    const { bytesRead } = await handle.read(drop, 0, Math.min(drop.length, size - 1 - sentBytes));
    await writeThrough(response, drop.subarray(0, bytesRead));
    sentBytes += bytesRead;
    await wait(1_000 / DRIPS_PER_SECOND, undefined, { signal: left });
  }
}
