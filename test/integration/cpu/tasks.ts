/** Tasks for the pool: well-behaved ones, and one for each way to ruin a process. */
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, threadId } from "node:worker_threads";
import { PermanentError } from "../../../src/core/errors.ts";

export function double(n: number): number {
  return n * 2;
}

/** Where it runs. */
export function tellPlace(): { pid: number; threadId: number; isMainThread: boolean } {
  return { pid: process.pid, threadId, isMainThread };
}

export function countBytes(bytes: Uint8Array): number {
  return bytes.byteLength;
}

/** Keeps its core busy, without a pause. */
export function compute(ms: number): number {
  const until = performance.now() + ms;
  let rounds = 0;
  while (performance.now() < until) rounds++;
  return rounds;
}

export function print(text: string): string {
  process.stdout.write(`${text}\n`);
  // oxlint-disable-next-line no-console -- what it prints must not reach the worker's standard output
  console.log(text);
  return text;
}

export function readEnvironment(name: string): string | undefined {
  return process.env[name];
}

export function throwPermanent(text: string): never {
  throw new PermanentError(text, { code: "NO_GOOD" });
}

export function throwText(text: string): never {
  // oxlint-disable-next-line only-throw-error -- some code does
  throw text;
}

export function throwNothing(): never {
  // oxlint-disable-next-line only-throw-error -- some code does
  throw undefined;
}

export async function rejectWithStatus(status: number): Promise<never> {
  await sleep(1);
  throw Object.assign(new Error("the server says no"), { status });
}

export function returnFunction(): () => void {
  return () => undefined;
}

/** Never comes back, and lets nothing else of its process run. */
export function loopForEver(): never {
  for (;;) performance.now();
}

/** Never comes back, but its process is not busy. */
export async function waitForEver(): Promise<never> {
  for (;;) await sleep(1_000);
}

/** Outside of the heap, as buffers of images are. */
export function allocateBuffers(): never {
  const all: Buffer[] = [];
  for (;;) all.push(Buffer.alloc(8_388_608, all.length));
}

export function allocateObjects(): never {
  const all: unknown[] = [];
  for (;;) all.push(Array.from({ length: 1_000 }, (_, n) => ({ n })));
}

const kept: Buffer[] = [];

/** Comes back, and keeps what it has taken. */
export function keepBytes(bytes: number): number {
  kept.push(Buffer.alloc(bytes, 1));
  return process.pid;
}

/** Waits for a program that takes far too long. */
export function startProgram(note: string): void {
  execFileSync("sh", ["-c", `echo $$ > '${note}'; exec sleep 600`]);
}

export function exit(code: number): never {
  // oxlint-disable-next-line no-process-exit -- the point
  process.exit(code);
}

export function abort(): never {
  process.abort();
}

export async function raise(signal: NodeJS.Signals): Promise<void> {
  process.kill(process.pid, signal);
  await waitForEver();
}

export async function crashLater(): Promise<void> {
  setImmediate(() => {
    throw new Error("nobody catches this");
  });
  await waitForEver();
}

export async function closeChannel(): Promise<void> {
  process.disconnect();
  await waitForEver();
}
