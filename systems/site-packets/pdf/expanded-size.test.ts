/** Bombs are found wherever they are hidden, in bounded memory, and other files are accepted. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { constants, deflateSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { PdfWriter } from "../portals/pdf-writer.ts";
import { hasBomb } from "./expanded-size.ts";

const MIB = 1_048_576;
const BYTES_MAX = 2 * MIB;
const over = deflateSync(Buffer.alloc(BYTES_MAX + 1));
const zeros = deflateSync(Buffer.alloc(2 * BYTES_MAX));
const most = deflateSync(Buffer.alloc(BYTES_MAX));
const text = deflateSync(Buffer.from("BT (hello) Tj ET"));

function makePdf(...streams: readonly Uint8Array[]): Buffer {
  const file = new PdfWriter();
  for (const stream of streams) file.addPage(file.addStream(stream, "/Filter/FlateDecode"), "");
  return file.finish();
}

const replace = (pdf: Buffer, what: string | RegExp, by: string): Buffer =>
  Buffer.from(pdf.toString("latin1").replace(what, by), "latin1");

const pack = (bytes: Uint8Array, layers: number): Uint8Array =>
  layers === 0 ? bytes : pack(deflateSync(bytes), layers - 1);

describe("finds a bomb", () => {
  test.for<[string, Buffer]>([
    ["that is one byte too large", makePdf(over)],
    ["after other streams", makePdf(text, most, text, zeros, text)],
    ["that was packed twice", makePdf(pack(zeros, 1))],
    ["that was packed four times", makePdf(pack(zeros, 3))],
    [
      "whose packing says that it is not tried hard",
      makePdf(deflateSync(Buffer.alloc(3 * MIB), { level: 1 })),
    ],
    ["whose end is missing", makePdf(zeros.subarray(0, -20))],
    ["with rubbish after it", makePdf(Buffer.concat([zeros, Buffer.alloc(100_000, 1)]))],
    ["whose endstream is missing", replace(makePdf(zeros, text), "endstream", "")],
    ["after a stream whose endstream is missing", replace(makePdf(text, zeros), "endstream", "")],
    [
      "after a stream that is not packed",
      replace(makePdf(Buffer.from("hello"), zeros), "endstream", ""),
    ],
    ["after the word in a comment", replace(makePdf(zeros), "\n", "\n% upstream\n")],
    ["after the word on the same line", replace(makePdf(zeros), "<<", "<</A(stream)")],
    ["after spaces", replace(makePdf(zeros), "stream\n", "stream  \n")],
    ["after the line end of Windows", replace(makePdf(zeros), "stream\n", "stream\r\n")],
    ["after that of old Macs", replace(makePdf(zeros), "stream\n", "stream\r")],
    ["in a file that ends with it", Buffer.concat([Buffer.from("stream\n"), zeros])],
  ])("%s", async ([, pdf]) => {
    expect(await hasBomb(pdf, BYTES_MAX)).toBe(true);
  });

  test("that contains the word endstream", async () => {
    const said = deflateSync(Buffer.from("\nendstream\n"), {
      level: 0,
      finishFlush: constants.Z_FULL_FLUSH,
    });
    expect(await hasBomb(makePdf(Buffer.concat([said, zeros.subarray(2)])), BYTES_MAX)).toBe(true);
  });

  test("whose inner packing begins with one byte and a long run of nothing", async () => {
    const nothing = Array.from({ length: 40_000 }, () => store(Buffer.alloc(0)));
    const blocks = [store(zeros.subarray(0, 1)), ...nothing, store(zeros.subarray(1), true)];
    const twice = Buffer.concat([Buffer.from([0x78, 0x01]), ...blocks, computeAdler(zeros)]);
    expect(await hasBomb(makePdf(deflateSync(twice)), BYTES_MAX)).toBe(true);
  });
});

/** A block that is not packed. */
function store(bytes: Buffer, isLast = false): Buffer {
  const head = Buffer.alloc(5);
  head[0] = isLast ? 1 : 0;
  head.writeUInt16LE(bytes.length, 1);
  head.writeUInt16LE(0xffff - bytes.length, 3);
  return Buffer.concat([head, bytes]);
}

function computeAdler(bytes: Buffer): Buffer {
  let [one, two] = [1, 0];
  for (const byte of bytes) {
    one = (one + byte) % 65_521;
    two = (two + one) % 65_521;
  }
  const sum = Buffer.alloc(4);
  sum.writeUInt16BE(two, 0);
  sum.writeUInt16BE(one, 2);
  return sum;
}

describe("finds no bomb in", () => {
  test.for<[string, Buffer]>([
    ["a stream of as many bytes as may be", makePdf(most)],
    ["many streams that are too large together", makePdf(most, most, most)],
    ["a stream that is not zlib", makePdf(Buffer.from("x\u009Chello", "latin1"), Buffer.alloc(9))],
    ["a stream that is not packed", makePdf(Buffer.alloc(BYTES_MAX + 1, 0x20))],
    ["a stream with rubbish after it", makePdf(Buffer.concat([text, Buffer.alloc(100_000, 1)]))],
    [
      "one packed twice with rubbish after it",
      makePdf(pack(Buffer.concat([text, Buffer.alloc(MIB, 1)]), 1)),
    ],
    [
      "one that only looks as if packed twice",
      makePdf(deflateSync(Buffer.concat([Buffer.from([0x78, 0x9c]), Buffer.alloc(MIB)]))),
    ],
    ["a stream that was cut", makePdf(deflateSync(Buffer.alloc(MIB)).subarray(0, -20))],
    ["a file without streams", Buffer.from("%PDF-1.7\n%%EOF")],
    ["a file that ends with the word", Buffer.from("%PDF-1.7\nstream")],
    ["nothing", Buffer.alloc(0)],
  ])("%s", async ([, pdf]) => {
    expect(await hasBomb(pdf, BYTES_MAX)).toBe(false);
  });
});

test("reads 10,000 small streams without waiting for any of them", async () => {
  const file = new PdfWriter();
  for (let nth = 0; nth < 10_000; nth++) file.addStream(text, "/Filter/FlateDecode");
  // A pipe for each took fifteen times as long, and several turns of the event loop.
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  expect(await hasBomb(file.finish(), BYTES_MAX)).toBe(false);
  clearImmediate(next);
  expect(turns).toBe(0);
});

test("reads the file once even if a keyword is everywhere", async () => {
  expect(await hasBomb(Buffer.alloc(2 * MIB, "stream"), BYTES_MAX)).toBe(false);
});

/** In a separate process: its growth at its peak, with the limit of documents. */
async function measureGrowth(
  make: string,
  path = "",
): Promise<{ readonly isBomb: boolean; readonly grownBytes: number }> {
  const resolve = (path: string): string => JSON.stringify(import.meta.resolve(path));
  // The peak from getrusage would be at least that of this process, from which it was forked.
  const script = `
    import { readFileSync } from "node:fs";
    const peak = () => Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
    import { writeBombPdf } from ${resolve("../portals/bomb-pdf.ts")};
    import { hasBomb } from ${resolve("./expanded-size.ts")};
    const pdf = ${make};
    const before = peak();
    const isBomb = await hasBomb(pdf, 128 * ${MIB});
    const grownBytes = (peak() - before) * 1024;
    console.log(JSON.stringify({ isBomb, grownBytes }));`;
  const args = ["--input-type=module", "--eval", script, path];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as { isBomb: boolean; grownBytes: number };
}

describe("the process grows by at most 100 MB", () => {
  test("for a bomb of a gigabyte that was packed twice", async () => {
    const { isBomb, grownBytes } = await measureGrowth("writeBombPdf()");
    expect(isBomb).toBe(true);
    expect(grownBytes).toBeLessThan(100 * MIB);
  });

  test("for a file that looks packed twice and is just below the limit", async () => {
    // Made here: in the child, making it would count.
    const packed = deflateSync(Buffer.concat([Buffer.from([0x78, 0x9c]), Buffer.alloc(127 * MIB)]));
    const folder = await mkdtemp(join(tmpdir(), "sluice-expanded-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "f.pdf");
    await writeFile(path, Buffer.concat([Buffer.from("stream\n"), packed]));
    const { isBomb, grownBytes } = await measureGrowth("readFileSync(process.argv[1])", path);
    expect(isBomb).toBe(false);
    expect(grownBytes).toBeLessThan(100 * MIB);
  });
});
