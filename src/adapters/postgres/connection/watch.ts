/**
 * Wake-ups, of commits that leave something new to do or to see. Those of this process are told at
 * once; those of others by LISTEN and NOTIFY, which are only a hint: whoever watches keeps a slow poll
 * beneath it, and everything ends without them. A notification is sent beside the commit and not in
 * it, as the server lets those in only one after the other, and at most so many a second. Behind a
 * pooler in transaction mode nothing can be heard. Whoever listens finds that out by a word to itself,
 * and then looks every now and then.
 */
import type { Client } from "pg";
import { type Clock, sleep } from "../../../ports/clock.ts";
import type { Random } from "../../../ports/random.ts";
import type { Connection } from "./connection.ts";

/** Between two notifications of one process. */
const TELL_EVERY_MS = 20;
/** After it could not be listened, it is tried again. */
const AGAIN_MS = 1_000;
/** Says nothing but that it can be heard. */
const ECHO = "echo";
/** Whoever has not heard its own word by then hears nothing, and looks this often. */
const DEAF_LOOK_MS = 5_000;
/** The last word of one that closes: a server that is gone keeps nobody for longer. */
const LAST_WORD_MS = 1_000;

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

  /** What was committed a moment ago is told before it ends. */
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

  /** It is only a hint: who does not hear it looks later. */
  async #say(word: string): Promise<void> {
    await this.#connection.ask("SELECT pg_notify($1, $2)", [this.#channel, word]).catch(ignore);
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

  /** Every now and then, until a notification comes, of whomever. */
  #lookUnlessHeard(): void {
    // The look that is due stays so: one who cannot listen tries it again and again.
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
