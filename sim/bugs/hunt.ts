/**
 * Hunts bugs: each in its own process, which plays seed after seed until its world finds a problem,
 * the seeds that are known to catch it first. A problem that the code without the bug has on the
 * same seed is no catch; neither is a process that dies, cannot load the bug, or takes too long for
 * a seed.
 */
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../../test/support/postgres-server.ts";
import { dropGround } from "../interleaved/ground.ts";
import { type Bug, pickWorld } from "./bug.ts";
import type { KnownSeeds } from "./known-seeds.ts";
import type { PlayerWord, SeedAsked } from "./player.ts";
import { listSeeds } from "./seed-order.ts";

export interface HuntOptions {
  /** Seeds 1 to this one. */
  readonly seedsMax: number;
  /** Seeds that are tried before these. */
  readonly known?: KnownSeeds;
  /** Bugs that are hunted side by side. */
  readonly jobs: number;
  /** Real time for one seed. */
  readonly seedLimitMs?: number;
  /** A PostgreSQL server, for the bugs that are hunted on one; default one of its own. */
  readonly server?: string;
  readonly onDone?: (result: HuntResult) => void;
}

export interface HuntResult {
  readonly bug: string;
  /** How many seeds were played until one caught it; null if none did. */
  readonly seeds: number | null;
  /** That seed. */
  readonly caughtBy: number | null;
  readonly tookMs: number;
  /** What the world found, or why nothing was found. */
  readonly found: string;
}

const PLAYER = fileURLToPath(new URL("./player.ts", import.meta.url));
/** A busy machine takes ten times as long as an idle one. */
const SEED_LIMIT_MS = 120_000;
/** Each of its statements is a round trip. */
const SERVER_SEED_LIMIT_MS = 300_000;
/** Seeds on which a bug may die or hang before its hunt is given up. */
const MISHAPS_MAX = 3;
const STDERR_CHARS_MAX = 2_000;

/** The process cannot continue; more seeds need another one. */
class Mishap extends Error {}

/** No seed can be played with this bug. */
class Unfit extends Error {}

export async function hunt(bugs: readonly Bug[], options: HuntOptions): Promise<HuntResult[]> {
  const needsServer = bugs.some((bug) => pickWorld(bug) === "postgres");
  if (!needsServer || options.server !== undefined) return huntWith(bugs, options);
  const server = await startPostgres();
  try {
    return await huntWith(bugs, { ...options, server: server.address });
  } finally {
    await server.stop();
  }
}

async function huntWith(bugs: readonly Bug[], options: HuntOptions): Promise<HuntResult[]> {
  const cache = mkdtempSync(join(tmpdir(), "sluice-bugs-"));
  const players = new Players(cache, options);
  const clean = new CleanPlayer(players);
  const results: HuntResult[] = [];
  const waiting = [...bugs.entries()];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, bug] = next;
      const result = await huntOne(bug, clean, players, options);
      results[at] = result;
      options.onDone?.(result);
    }
  };
  try {
    // It fills the compile cache for the others.
    await clean.start();
    await Promise.all(Array.from({ length: options.jobs }, work));
  } finally {
    clean.end();
    await players.clear();
    rmSync(cache, { recursive: true });
  }
  return results;
}

/** Starts processes that play, and removes what they leave on the server. */
class Players {
  readonly #cache: string;
  readonly #options: HuntOptions;
  readonly #started: number[] = [];

  constructor(cache: string, options: HuntOptions) {
    this.#cache = cache;
    this.#options = options;
  }

  /** Null plays the code without a bug. */
  async start(bug: Bug | null): Promise<Player> {
    const { server, seedLimitMs } = this.#options;
    const isOnServer = bug === null ? server !== undefined : pickWorld(bug) === "postgres";
    const limitMs = seedLimitMs ?? (isOnServer ? SERVER_SEED_LIMIT_MS : SEED_LIMIT_MS);
    const player = await Player.start(bug?.name ?? null, this.#cache, limitMs);
    if (player.pid !== undefined) this.#started.push(player.pid);
    return player;
  }

  async clear(): Promise<void> {
    const { server } = this.#options;
    if (server === undefined) return;
    for (const pid of this.#started) await dropGround(server, pid);
  }
}

async function huntOne(
  bug: Bug,
  clean: CleanPlayer,
  players: Players,
  options: HuntOptions,
): Promise<HuntResult> {
  const { seedsMax, server = null } = options;
  const store = pickWorld(bug);
  const startedAt = performance.now();
  let seeds = 0;
  const conclude = (caughtBy: number | null, found: string): HuntResult => ({
    bug: bug.name,
    seeds: caughtBy === null ? null : seeds,
    caughtBy,
    tookMs: Math.round(performance.now() - startedAt),
    found,
  });
  const mishaps: string[] = [];
  /** Seeds that fail without the bug as well. */
  let unsound = 0;
  let player: Player | null = null;
  try {
    for (const seed of listSeeds(bug, options.known?.get(bug.name) ?? [], seedsMax)) {
      seeds++;
      try {
        player ??= await players.start(bug);
        const [problem] = await player.play({ seed, store, server });
        if (problem === undefined) continue;
        const [ours] = await clean.play({ seed, store, server });
        if (ours === undefined) return conclude(seed, problem);
        unsound++;
      } catch (error) {
        if (error instanceof Unfit) return conclude(null, error.message);
        if (!(error instanceof Mishap)) throw error;
        mishaps.push(`seed ${seed}: ${error.message}`);
        player?.end();
        player = null;
      }
      if (mishaps.length >= MISHAPS_MAX) break;
    }
  } finally {
    player?.end();
  }
  const alike = unsound === 0 ? [] : [`${unsound} seeds fail without the bug as well`];
  return conclude(null, ["not caught", ...alike, ...mishaps].join("; "));
}

/** Plays the code without a bug; each seed once. */
class CleanPlayer {
  readonly #players: Players;
  readonly #found = new Map<string, Promise<readonly string[]>>();
  #player: Promise<Player> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(players: Players) {
    this.#players = players;
  }

  start(): Promise<Player> {
    this.#player ??= this.#players.start(null);
    return this.#player;
  }

  play(asked: SeedAsked): Promise<readonly string[]> {
    const name = `${asked.seed} on ${asked.store}`;
    const known = this.#found.get(name);
    if (known !== undefined) return known;
    const played = this.#last.then(async () => (await this.start()).play(asked));
    this.#last = played.catch(() => undefined);
    this.#found.set(name, played);
    return played;
  }

  end(): void {
    void this.#player?.then((player) => player.end());
  }
}

/** A process that plays one seed at a time. */
class Player {
  readonly #child: ChildProcess;
  readonly #seedLimitMs: number;
  #stderr = "";
  #onWord: (word: PlayerWord) => void = () => undefined;
  #onMishap: (mishap: Mishap) => void = () => undefined;

  private constructor(bug: string | null, cache: string, seedLimitMs: number) {
    this.#seedLimitMs = seedLimitMs;
    this.#child = fork(PLAYER, bug === null ? [] : [bug], {
      execArgv: [],
      env: { ...process.env, NODE_COMPILE_CACHE: cache },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child.stderr?.on("data", (data: Buffer) => {
      this.#stderr = `${this.#stderr}${data.toString()}`.slice(-STDERR_CHARS_MAX);
    });
    this.#child.on("message", (word: PlayerWord) => this.#onWord(word));
    this.#child.on("error", (error) => this.#onMishap(new Mishap(String(error))));
    this.#child.on("close", () => {
      const [why = "without a word"] = this.#stderr.match(/^\w*Error: .*$/mu) ?? [];
      this.#onMishap(new Mishap(`its process died: ${why}`));
    });
  }

  static async start(bug: string | null, cache: string, seedLimitMs: number): Promise<Player> {
    const player = new Player(bug, cache, seedLimitMs);
    const word = await player.#listen();
    if (word.kind === "ready") return player;
    player.end();
    throw new Unfit(word.kind === "unfit" ? word.why : `it began with ${word.kind}`);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async play(asked: SeedAsked): Promise<readonly string[]> {
    this.#child.send(asked);
    const word = await this.#listen();
    if (word.kind === "played" && word.seed === asked.seed) return word.problems;
    throw new Mishap(`it answered ${word.kind}`);
  }

  #listen(): Promise<PlayerWord> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Mishap(`it took longer than ${this.#seedLimitMs} ms`));
      }, this.#seedLimitMs);
      this.#onWord = (word) => {
        clearTimeout(timer);
        resolve(word);
      };
      this.#onMishap = (mishap) => {
        clearTimeout(timer);
        reject(mishap);
      };
    });
  }

  end(): void {
    this.#onMishap = () => undefined;
    this.#child.kill("SIGKILL");
  }
}
