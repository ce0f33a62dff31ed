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
const NOTIFY_EVERY_MS = 20;
/** After a failed LISTEN, the delay before the next attempt. */
const LISTEN_RETRY_MS = 1_000;
/** A notification that only tests whether notifications arrive. */
const ECHO = "echo";
/** If its own notification has not arrived by then, none will: it polls at this interval. */
const POLL_MS = 5_000;
/**
 * Time limit for the last notification when closing: a server that is gone must not delay the end.
 */
const LAST_NOTIFICATION_MS = 1_000;

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
  #cancelNotification: (() => void) | null = null;
  #cancelRetry: (() => void) | null = null;
  #cancelPoll: (() => void) | null = null;
  #isStopped = false;

  constructor(connection: Connection, clock: Clock, random: Random) {
    this.#name = random.id();
    this.#connection = connection;
    this.#clock = clock;
    this.#stopListening = connection.onCommit(() => {
      this.#notifyWatchers();
      this.#notifyOthers();
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
      if (this.#watchers.size === 0) this.#stopListener();
    };
  }

  /** A commit of a moment ago is still notified before the end. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watchers.clear();
    this.#stopListening();
    this.#stopListener();
    if (this.#cancelNotification === null) return;
    this.#cancelNotification();
    this.#cancelNotification = null;
    const sent = new AbortController();
    void this.#send(this.#name).then(() => sent.abort());
    await sleep(this.#clock, LAST_NOTIFICATION_MS, sent.signal);
  }

  #notifyWatchers(): void {
    for (const watcher of this.#watchers) watcher();
  }

  #notifyOthers(): void {
    if (this.#cancelNotification !== null || this.#isStopped) return;
    this.#cancelNotification = this.#clock.after(NOTIFY_EVERY_MS, () => {
      this.#cancelNotification = null;
      void this.#send(this.#name);
    });
  }

  /** It is only a hint: a process that misses it polls later. */
  async #send(payload: string): Promise<void> {
    await this.#connection.ask("SELECT pg_notify($1, $2)", [this.#channel, payload]).catch(ignore);
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
      this.#cancelRetry = this.#clock.after(LISTEN_RETRY_MS, () => this.#listen(true));
      this.#pollUntilNotified();
    };
    client.on("notification", ({ payload }) => {
      this.#stopPolling();
      if (payload !== this.#name && payload !== ECHO) this.#notifyWatchers();
    });
    client.on("error", onLost);
    client.on("end", onLost);
    client
      .connect()
      .then(() => client.query(`LISTEN ${client.escapeIdentifier(this.#channel)}`))
      .then(() => {
        if (this.#listener !== client) return;
        if (again) this.#notifyWatchers();
        this.#pollUntilNotified();
        void this.#send(ECHO);
      })
      .catch(onLost);
  }

  /** Polls at intervals until a notification of any process arrives. */
  #pollUntilNotified(): void {
    // A scheduled poll stays: a process without LISTEN tries it again and again.
    if (this.#cancelPoll !== null) return;
    this.#cancelPoll = this.#clock.after(POLL_MS, () => {
      this.#cancelPoll = null;
      this.#pollUntilNotified();
      this.#notifyWatchers();
    });
  }

  #stopPolling(): void {
    this.#cancelPoll?.();
    this.#cancelPoll = null;
  }

  #stopListener(): void {
    this.#cancelRetry?.();
    this.#stopPolling();
    const client = this.#listener;
    this.#listener = null;
    void client?.end().catch(ignore);
  }
}

function ignore(): void {}
