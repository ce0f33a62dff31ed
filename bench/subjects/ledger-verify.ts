/** Verifies an export from its file, or only hashes the file's bytes; both read it in the same pieces. */
import { createHash } from "node:crypto";
import { createReadStream, statSync } from "node:fs";
import { join } from "node:path";
import { isConclusive } from "../../dist/ledger/verify/verdict.js";
import { verifyExport } from "../../dist/ledger/verify/verify-export.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";
import { writeLedgerFile } from "./ledger-file.ts";

interface VerifyOptions {
  readonly folder: string;
  readonly records: number;
  readonly does: "verify" | "hash";
}

const PIECE_BYTES = 1024 * 1024;

async function measureVerifying({ folder, records, does }: VerifyOptions): Promise<Figures> {
  const path = join(folder, "export.jsonl");
  const keyId = await writeLedgerFile(path, records);
  const pieces = createReadStream(path, { highWaterMark: PIECE_BYTES });
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  if (does === "hash") {
    const hash = createHash("sha256");
    for await (const piece of pieces) hash.update(piece as Buffer);
    hash.digest("hex");
  } else {
    const verdict = await verifyExport(pieces, { trusted: [keyId] });
    if (!isConclusive(verdict)) throw new Error(JSON.stringify(verdict));
    checkCount("records of items", verdict.kind === "intact" ? verdict.items : 0, records);
  }
  const seconds = elapsedSeconds(startedAt);
  const { user, system } = process.cpuUsage(cpuBefore);
  const bytesPerRecord = statSync(path).size / records;
  return { seconds, cpuSeconds: (user + system) / 1e6, bytesPerRecord };
}

await runSubject(measureVerifying);
