/**
 * Wake-ups, of commits that leave something new to do or to see. Those of this process are told at
 * once; those of others by LISTEN and NOTIFY, which are only a hint: whoever watches keeps a slow poll beneath it, and everything ends without them. A
 * notification is sent beside the commit and not in it, as the server lets those in only one after
 * the other, and at most so many a second. Behind a pooler in transaction mode nothing can be heard:
 * then it looks by itself every now and then.
 */
import type { Client } from "pg";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Connection } from "./connection.ts";

/** Between two notifications of one process. */
const TELL_EVERY_MS = 20;
/** After it could not be listened, it is tried again. */
const AGAIN_MS = 1_000;

/** On which the commits of a store are told of. */
export function nameChannel(schema: string): string {
  return `sluice_${schema}`;
}

export class ChangeWatch {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #watchers = new Set<() => void>();
  /** By which its own notifications are known: those commits were told of at once. */
  readonly #name: string;
  readonly #stopListening: () => void;
  #listener: Client | null = null;
  #cancelTelling: (() => void) | null = null;
  #cancelRetry: (() => void) | null = null;
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

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watchers.clear();
    this.#stopListening();
    this.#cancelTelling?.();
    this.#hangUp();
  }

  #tell(): void {
    for (const watcher of this.#watchers) watcher();
  }

  #tellOthers(): void {
    if (this.#cancelTelling !== null || this.#isStopped) return;
    this.#cancelTelling = this.#clock.after(TELL_EVERY_MS, () => {
      this.#cancelTelling = null;
      // It is only a hint: who does not hear it looks later.
      this.#connection.ask("SELECT pg_notify($1, $2)", [this.#channel, this.#name]).catch(ignore);
    });
  }

  /** `again`: what happened while it could not listen may have been missed. */
  #listen(again: boolean): void {
    const client = this.#connection.createClient();
    this.#listener = client;
    const onLost = (): void => {
      if (this.#listener !== client) return;
      this.#listener = null;
      void client.end().catch(ignore);
      if (this.#isStopped || this.#watchers.size === 0) return;
      this.#cancelRetry = this.#clock.after(AGAIN_MS, () => this.#listen(true));
    };
    client.on("notification", ({ payload }) => {
      if (payload !== this.#name) this.#tell();
    });
    client.on("error", onLost);
    client.on("end", onLost);
    client
      .connect()
      .then(() => client.query(`LISTEN ${client.escapeIdentifier(this.#channel)}`))
      .then(() => (again ? this.#tell() : undefined))
      .catch(onLost);
  }

  #hangUp(): void {
    this.#cancelRetry?.();
    const client = this.#listener;
    this.#listener = null;
    void client?.end().catch(ignore);
  }
}

function ignore(): void {}
