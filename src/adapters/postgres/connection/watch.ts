/**
 * Wake-ups for commits that leave something new to do or to see. Commits of this process are
 * reported at once; those of others by LISTEN and NOTIFY, which are only a hint: a watcher also
 * polls slowly, and everything works without them. A notification is sent after the commit and not
 * in it, because the server serialises commits that notify. Behind a pooler in transaction mode no
 * notification arrives. The listener finds that out by a notification to itself, and then polls at
 * intervals.
 */
import type { Client } from "pg";
import { type Clock, sleep } from "../../../ports/clock.ts";
import type { Random } from "../../../ports/random.ts";
import type { Connection } from "./connection.ts";

/** Shortest time between two notifications of one process. */
const TELL_EVERY_MS = 20;
/** After a failed LISTEN, the delay before the next attempt. */
const AGAIN_MS = 1_000;
/** A notification that only tests whether notifications arrive. */
const ECHO = "echo";
/** If its own notification has not arrived by then, none will: it polls at this interval. */
const DEAF_LOOK_MS = 5_000;
/**
 * Time limit for the last notification when closing: a server that is gone must not delay the end.
 */
const LAST_WORD_MS = 1_000;

/** The channel for the commits of a store. */
export function nameChannel(schema: string): string {
  return `sluice_${schema}`;
}

export class ChangeWatch {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #watchers = new Set<() => void>();
  /** Identifies its own notifications: those commits were reported at once. */
  readonly #name: string;
  readonly #stopListening: () => void;
  #listener: Client | null = null;
  #cancelTelling: (() => void) | null = null;
  #cancelRetry: (() => void) | null = null;
  #cancelDeafLook: (() => void) | null = null;
  #isStopped = false;

  constructor(connection: Connection, clock: Clock, random: Random) {
    this.#name = random.id();
    this.#connection = connection;
    this.#clock = clock;
    this.#stopListening = connection.onCommit(() => {
      this.#tell();
      this.#tellOthers();
    });
  }

  get #channel(): string {
    return nameChannel(this.#connection.schema);
  }

  watch(onChange: () => void): () => void {
    // Each call is its own subscription, also when the same function watches twice.
    const watcher = (): void => onChange();
    this.#watchers.add(watcher);
    if (this.#listener === null) this.#listen(false);
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#hangUp();
    };
  }

  /** A commit of a moment ago is still notified before the end. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watchers.clear();
    this.#stopListening();
    this.#hangUp();
    if (this.#cancelTelling === null) return;
    this.#cancelTelling();
    this.#cancelTelling = null;
    const said = new AbortController();
    void this.#say(this.#name).then(() => said.abort());
    await sleep(this.#clock, LAST_WORD_MS, said.signal);
  }

  #tell(): void {
    for (const watcher of this.#watchers) watcher();
  }

  #tellOthers(): void {
    if (this.#cancelTelling !== null || this.#isStopped) return;
    this.#cancelTelling = this.#clock.after(TELL_EVERY_MS, () => {
      this.#cancelTelling = null;
      void this.#say(this.#name);
    });
  }

  /** It is only a hint: a process that misses it polls later. */
  async #say(word: string): Promise<void> {
    await this.#connection.ask("SELECT pg_notify($1, $2)", [this.#channel, word]).catch(ignore);
  }

  /** `again`: changes during the time without LISTEN may have been missed. */
  #listen(again: boolean): void {
    const client = this.#connection.createClient();
    this.#listener = client;
    const onLost = (): void => {
      if (this.#listener !== client) return;
      this.#listener = null;
      void client.end().catch(ignore);
      if (this.#isStopped || this.#watchers.size === 0) return;
      this.#cancelRetry = this.#clock.after(AGAIN_MS, () => this.#listen(true));
      this.#lookUnlessHeard();
    };
    client.on("notification", ({ payload }) => {
      this.#stopLooking();
      if (payload !== this.#name && payload !== ECHO) this.#tell();
    });
    client.on("error", onLost);
    client.on("end", onLost);
    client
      .connect()
      .then(() => client.query(`LISTEN ${client.escapeIdentifier(this.#channel)}`))
      .then(() => {
        if (this.#listener !== client) return;
        if (again) this.#tell();
        this.#lookUnlessHeard();
        void this.#say(ECHO);
      })
      .catch(onLost);
  }

  /** Polls at intervals until a notification of any process arrives. */
  #lookUnlessHeard(): void {
    // A scheduled poll stays: a process without LISTEN tries it again and again.
    if (this.#cancelDeafLook !== null) return;
    this.#cancelDeafLook = this.#clock.after(DEAF_LOOK_MS, () => {
      this.#cancelDeafLook = null;
      this.#lookUnlessHeard();
      this.#tell();
    });
  }

  #stopLooking(): void {
    this.#cancelDeafLook?.();
    this.#cancelDeafLook = null;
  }

  #hangUp(): void {
    this.#cancelRetry?.();
    this.#stopLooking();
    const client = this.#listener;
    this.#listener = null;
    void client?.end().catch(ignore);
  }
}

function ignore(): void {}
