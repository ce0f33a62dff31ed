/**
 * The configuration: the sites, where and how often each may be reached, and the limits of a
 * document. It is checked completely before anything runs, and all mistakes are reported at once.
 */
import { readFile } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { SluiceError } from "sluice";
import { z } from "zod";
import { makeAddressGuard } from "./download/address-guard.ts";
import { SITE_NAME } from "./entry.ts";

const MIB = 1_048_576;

const whole = (min: number, max: number) =>
  z
    .int({ error: `must be a whole number from ${min} to ${max}` })
    .min(min)
    .max(max);

const origin = z.string().refine(isOrigin, {
  error: "must be an origin such as https://portal.example, without a path",
});

const portal = z.strictObject({
  origin,
  /** Further hosts of its documents, as `name` or `name:port`. */
  hosts: z
    .array(z.string().max(300).refine(isHost, { error: "must be a host, as name or name:port" }))
    .default([]),
  perSecond: z.number().positive().max(1_000_000).optional(),
  burst: whole(1, 1_000_000).optional(),
});

/** A folder of this machine instead of a portal. */
const folder = z.strictObject({
  folder: z.string().refine((path) => isAbsolute(path), { error: "must be an absolute path" }),
});

export const configSchema = z.strictObject({
  sites: z.record(
    z.string().regex(SITE_NAME, "must be 1 to 63 letters, digits, dots, dashes or underscores"),
    z.union([portal, folder]),
  ),
  /** Networks such as `127.0.0.0/8` whose addresses are allowed although they are not public. */
  allowPrivate: z
    .array(z.string().refine(isNetwork, { error: "must be a network such as 10.20.0.0/16" }))
    .default([]),
  /** Requests to each site, unless it has its own numbers. */
  rate: z
    .strictObject({ perSecond: z.number().positive().max(1_000_000), burst: whole(1, 1_000_000) })
    .default({ perSecond: 5, burst: 10 }),
  /** Concurrent documents: in total, and of one site. */
  concurrency: z
    .strictObject({ all: whole(1, 10_000).default(16), site: whole(1, 10_000).default(4) })
    .prefault({}),
  download: z
    .strictObject({
      bytesMax: whole(1, 2_000 * MIB).default(20 * MIB),
      connectMs: whole(1, 600_000).default(10_000),
      headersMs: whole(1, 600_000).default(30_000),
      idleMs: whole(1, 600_000).default(30_000),
      totalMs: whole(1, 3_600_000).default(120_000),
      redirectsMax: whole(0, 20).default(5),
      attempts: whole(1, 100).default(4),
      retryBaseMs: whole(0, 86_400_000).default(500),
    })
    .prefault({}),
  document: z
    .strictObject({
      types: z
        .array(z.string())
        .min(1)
        .default(["protocol", "approval", "lab-certificate", "cv", "other"]),
      pagesMax: whole(1, 100_000).default(500),
      charactersMax: whole(1, 100_000_000).default(10_000_000),
      /** The limit for the unpacked size of one compressed stream of a PDF. */
      streamBytesMax: whole(MIB, 2_000 * MIB).default(128 * MIB),
      /** A document with fewer characters than this counts as a scan. */
      ocrBelowCharacters: whole(0, 1_000_000).default(32),
      ocrPagesMax: whole(0, 100_000).default(200),
    })
    .prefault({}),
  feed: z
    .strictObject({
      /** Entries that may be unfinished before their producer has to wait. */
      aheadMax: whole(1, 1_000_000).default(1_000),
      /** Entries of one batch. The spool never holds more: the next batch comes after it. */
      batchMax: whole(1, 1_000_000).default(1_000),
    })
    .prefault({}),
  pool: z
    .strictObject({
      /** Processes that read PDFs; default one for each core. */
      size: whole(1, 1_024).optional(),
      memoryBytesMax: whole(128 * MIB, 65_536 * MIB).default(512 * MIB),
      taskMs: whole(1, 3_600_000).default(60_000),
    })
    .prefault({}),
});

export type Config = z.output<typeof configSchema>;
export type ConfigInput = z.input<typeof configSchema>;

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && (url.origin === text || `${url.origin}/` === text);
}

function isHost(text: string): boolean {
  return /^[^/\\@?#\s]+$/.test(text) && URL.canParse(`https://${text}`);
}

function isNetwork(text: string): boolean {
  try {
    makeAddressGuard([text]);
    return true;
  } catch {
    return false;
  }
}

const HINT = "systems/site-packets/README.md lists all settings.";

export async function loadConfig(path: string): Promise<Config> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new SluiceError(
      "BAD_CONFIG",
      `the configuration ${path} cannot be read: ${describeCause(cause)}`,
      { hint: `Name one with --config. ${HINT}`, cause },
    );
  });
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""), refusePrototype);
  } catch (cause) {
    throw new SluiceError(
      "BAD_CONFIG",
      `the configuration ${path} is not valid JSON: ${describeCause(cause)}`,
      { hint: HINT, cause },
    );
  }
  return checkConfig(value, path);
}

/** The schema would drop it silently. */
function refusePrototype(key: string, value: unknown): unknown {
  if (key === "__proto__") throw new Error('the name "__proto__" is not allowed');
  return value;
}

function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

export function checkConfig(value: unknown, path: string): Config {
  const checked = configSchema.safeParse(value);
  if (checked.success) return checked.data;
  const problems = checked.error.issues.map(describeIssue);
  throw new SluiceError(
    "BAD_CONFIG",
    `the configuration ${path} has ${problems.length === 1 ? "a problem" : `${problems.length} problems`}:\n${problems.map((one) => `  - ${one}`).join("\n")}`,
    { hint: HINT },
  );
}

export function describeIssue(issue: z.core.$ZodIssue): string {
  const place = issue.path.map(String).join(".");
  const what = describeWhat(issue);
  return place === "" ? what : `${place}: ${what}`;
}

/** For an invalid key or choice the reasons are one level deeper. */
function describeWhat(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_key") return issue.issues.map(describeIssue).join("; ");
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return issue.message;
  // The alternative with the fewest problems is the intended one.
  const fewest = Math.min(...issue.errors.map((issues) => issues.length));
  const nearest = issue.errors.filter((issues) => issues.length === fewest);
  return nearest.map((issues) => issues.map(describeIssue).join("; ")).join(", or ");
}
