/**
 * Hunts bugs: each in its own process, which plays seed after seed until its world finds a problem.
 * A problem that the code without the bug has on the same seed is no catch; neither is a process
 * that dies, cannot load the bug, or takes too long for a seed.
 */
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../../test/support/postgres-server.ts";
import { dropGround } from "../interleaved/ground.ts";
import { type Bug, pickWorld } from "./bug.ts";
import type { PlayerWord, SeedAsked } from "./player.ts";

export interface HuntOptions {
  /** Seeds 1 to this one. */
  readonly seedsMax: number;
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
  /** Seeds until it was caught; null if it was not. */
  readonly seeds: number | null;
  readonly tookMs: number;
  /** What the world found, or why nothing was found. */
  readonly found: string;
}

const PLAYER = fileURLToPath(new URL("./player.ts", import.meta.url));
const SEED_LIMIT_MS = 30_000;
/** Each of its statements is a round trip. */
const SERVER_SEED_LIMIT_MS = 180_000;
/** Seeds on which a bug may die or hang before its hunt is given up. */
const MISHAPS_MAX = 3;
const STDERR_CHARS_MAX = 2_000;

/** The process cannot continue; more seeds need another one. */
class Mishap extends Error {}

/** No seed can be played with this bug. */
class Unfit extends Error {}

export async function hunt(bugs: readonly Bug[], options: HuntOptions): Promise<HuntResult[]> {
  const needsServer = bugs.some((bug) => pickWorld(bug) === "postgres");
  if (!needsServer) return huntAll(bugs, options, []);
  if (options.server !== undefined) return huntOn(options.server, bugs, options);
  const server = await startPostgres();
  try {
    return await huntOn(server.address, bugs, options);
  } finally {
    await server.stop();
  }
}

async function huntOn(
  server: string,
  bugs: readonly Bug[],
  options: HuntOptions,
): Promise<HuntResult[]> {
  const started: number[] = [];
  try {
    return await huntAll(bugs, { ...options, server }, started);
  } finally {
    for (const pid of started) await dropGround(server, pid);
  }
}

/** `started`: gets the numbers of the processes. */
async function huntAll(
  bugs: readonly Bug[],
  options: HuntOptions,
  started: number[],
): Promise<HuntResult[]> {
  const start = async (bug: Bug | null): Promise<Player> => {
    const isOnServer = bug === null ? options.server !== undefined : pickWorld(bug) === "postgres";
    const usualMs = isOnServer ? SERVER_SEED_LIMIT_MS : SEED_LIMIT_MS;
    const player = await Player.start(bug?.name ?? null, options.seedLimitMs ?? usualMs);
    if (player.pid !== undefined) started.push(player.pid);
    return player;
  };
  const clean = new CleanPlayer(() => start(null));
  const results: HuntResult[] = [];
  const waiting = [...bugs.entries()];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, bug] = next;
      const result = await huntOne(bug, clean, options, () => start(bug));
      results[at] = result;
      options.onDone?.(result);
    }
  };
  try {
    await Promise.all(Array.from({ length: options.jobs }, work));
  } finally {
    clean.end();
  }
  return results;
}

async function huntOne(
  bug: Bug,
  clean: CleanPlayer,
  options: HuntOptions,
  start: () => Promise<Player>,
): Promise<HuntResult> {
  const { seedsMax, server = null } = options;
  const store = pickWorld(bug);
  const startedAt = performance.now();
  const conclude = (seeds: number | null, found: string): HuntResult => ({
    bug: bug.name,
    seeds,
    tookMs: Math.round(performance.now() - startedAt),
    found,
  });
  const mishaps: string[] = [];
  /** Seeds that fail without the bug as well. */
  let unsound = 0;
  let player: Player | null = null;
  try {
    for (let seed = 1; seed <= seedsMax; seed++) {
      try {
        player ??= await start();
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
  readonly #start: () => Promise<Player>;
  readonly #found = new Map<string, Promise<readonly string[]>>();
  #player: Promise<Player> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(start: () => Promise<Player>) {
    this.#start = start;
  }

  play(asked: SeedAsked): Promise<readonly string[]> {
    const name = `${asked.seed} on ${asked.store}`;
    const known = this.#found.get(name);
    if (known !== undefined) return known;
    this.#player ??= this.#start();
    const player = this.#player;
    const played = this.#last.then(async () => (await player).play(asked));
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

  private constructor(bug: string | null, seedLimitMs: number) {
    this.#seedLimitMs = seedLimitMs;
    this.#child = fork(PLAYER, bug === null ? [] : [bug], {
      execArgv: [],
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

  static async start(bug: string | null, seedLimitMs: number): Promise<Player> {
    const player = new Player(bug, seedLimitMs);
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
