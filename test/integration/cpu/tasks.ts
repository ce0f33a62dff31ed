/** Tasks for the pool: well-behaved ones, and one for each way to kill a process. */
import { execFileSync, spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, threadId } from "node:worker_threads";
import { PermanentError } from "../../../src/core/base/errors.ts";

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

const trap = (): never => {
  // oxlint-disable-next-line only-throw-error -- some code does
  throw sealed;
};
/** Throws at every property access. */
const sealed: object = new Proxy({}, { get: trap, getPrototypeOf: trap, has: trap });

export function throwSealed(): never {
  return trap();
}

export function throwMuch(chars: number): never {
  throw new Error("x".repeat(chars));
}

/** A value that cannot be copied and whose error cannot be printed. */
export function returnSealed(): object {
  return Object.defineProperty({}, "trap", { enumerable: true, get: trap });
}

export function returnBytes(bytes: number): Uint8Array {
  return Buffer.alloc(bytes, 1);
}

/** Sends to the worker's channel in every possible way. */
export async function sayNonsense(n: number): Promise<number> {
  type Say = (message: unknown, ...rest: unknown[]) => unknown;
  const hidden = Reflect.get(process, "_send") as Say;
  const forged = { kind: "answer", id: 1, answer: { kind: "returned", value: "forged" } };
  for (const message of [null, "ready", 7, true, {}, [], forged, { ...forged, answer: null }]) {
    process.send?.(message);
    hidden.call(process, message, undefined, {}, () => undefined);
  }
  await sleep(50);
  return n * 2;
}

export async function rejectWithStatus(status: number): Promise<never> {
  await sleep(1);
  throw Object.assign(new Error("the server says no"), { status });
}

export function returnFunction(): () => void {
  return () => undefined;
}

/** Never returns, and blocks everything else in its process. */
export function loopForEver(): never {
  for (;;) performance.now();
}

/** Never returns, but its process is not busy. */
export async function waitForEver(): Promise<never> {
  for (;;) await sleep(1_000);
}

/** Outside of the heap, as buffers of images are. */
export function allocateBuffers(): never {
  const all: Buffer[] = [];
  for (;;) all.push(Buffer.alloc(8_388_608, all.length));
}

/** No types of it come with Node's. */
interface Wasm {
  readonly Memory: new (
    pages: Readonly<Record<"initial" | "maximum", number>>,
  ) => { readonly buffer: ArrayBuffer; grow(pages: number): number };
}

/** In memory of WebAssembly, which has a bound of its own that is higher. */
export function allocateWasm(): never {
  const { Memory } = Reflect.get(globalThis, "WebAssembly") as Wasm;
  const memory = new Memory({ initial: 1, maximum: 65_536 });
  for (;;) {
    memory.grow(128);
    new Uint8Array(memory.buffer).fill(1);
  }
}

export function allocateObjects(): never {
  const all: unknown[] = [];
  for (;;) all.push(Array.from({ length: 1_000 }, (_, n) => ({ n })));
}

const kept: Buffer[] = [];

/** Comes back at once, and goes on to take memory. */
export function growLater(): number {
  const all: Buffer[] = [];
  const grow = (): void => {
    all.push(Buffer.alloc(8_388_608, 1));
    if (all.length < 60) setTimeout(grow, 1);
  };
  setTimeout(grow, 50);
  setInterval(() => all.length, 1_000);
  return process.pid;
}

/** Comes back, and keeps what it has taken. */
export function keepBytes(bytes: number): number {
  kept.push(Buffer.alloc(bytes, 1));
  return process.pid;
}

/** Waits for a program that takes far too long; its number is written down. */
export function startProgram(note: string): void {
  execFileSync("sh", ["-c", `echo $$ >> '${note}'; exec sleep 600`]);
}

/** Starts a program and does not wait for it; its number is written down. */
export function leaveProgram(note: string): number {
  const program = spawn("sleep", ["600"], { stdio: "ignore" });
  program.unref();
  appendFileSync(note, `${program.pid}\n`);
  return process.pid;
}

export function leaveProgramAndExit(note: string): never {
  leaveProgram(note);
  return exit(1);
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
    throw new Error("uncaught on purpose");
  });
  await waitForEver();
}

export async function closeChannel(): Promise<void> {
  process.disconnect();
  await waitForEver();
}
