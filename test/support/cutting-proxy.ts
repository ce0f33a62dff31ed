/**
 * A proxy to a PostgreSQL server that breaks connections in the worst places: between the COMMIT of
 * a client and its reply, before the COMMIT has reached the server, or everywhere at once. It can
 * also fall silent without an error. It reads just enough of the protocol to recognise messages: a
 * letter, a length and a body in both directions, but the first message of a client has no letter.
 */
import { once } from "node:events";
import { createServer, type Server, Socket } from "node:net";

/** What happens to the COMMIT of a transaction that writes. */
export type CommitFate =
  /** The server commits, and the client gets no reply. */
  | "lose_answer"
  /** The server does not get it. */
  | "lose_request";

/** A COMMIT that has not reached the server, on a connection that is open on both sides. */
export interface HeldCommit {
  /** Cuts the connection on the client's side; the server's side stays open. */
  drop(): void;
}

type Way = "to_server" | "to_client";

const HEADER_BYTES = 5;
/** Our writing transactions begin with these; readers have nothing to lose. */
const WRITES = "sluice_begin\0";
const READS = "sluice_begin_look\0";
const COMMIT = "COMMIT\0";

export class CuttingProxy {
  readonly #listener: Server;
  #server: URL;
  readonly #lines = new Set<Line>();
  #port = 0;
  #isSilent = false;
  #isRefusing = false;
  #waiting: { readonly fate: CommitFate | "hold"; tell(line: Line): void } | null = null;
  #cutting: { left: number; readonly act: "cut" | "hold"; tell(): void } | null = null;
  /** Notifications are not forwarded. */
  isDeaf = false;
  /** How many were dropped. */
  swallowed = 0;

  private constructor(address: string) {
    this.#server = new URL(address);
    this.#listener = createServer((client) => this.#connect(client));
  }

  /** In front of the server at this address. */
  static async start(address: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(address);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    const bound = proxy.#listener.address();
    if (bound === null || typeof bound === "string") throw new Error("no port was given");
    proxy.#port = bound.port;
    return proxy;
  }

  /** The server's address through this proxy. */
  get address(): string {
    const url = new URL(this.#server);
    url.port = String(this.#port);
    return url.href;
  }

  /** From now on it leads to another server; open connections are cut. */
  pointTo(address: string): void {
    this.#server = new URL(address);
    this.cut();
  }

  get connections(): number {
    return this.#lines.size;
  }

  /** Resets every connection, on both sides. */
  cut(): void {
    for (const line of this.#lines) line.cut();
  }

  /** Resets every connection, also new ones, as if no server were there. */
  refuse(): void {
    this.#isRefusing = true;
    this.cut();
  }

  accept(): void {
    this.#isRefusing = false;
  }

  /** Accepts connections and bytes and answers none of them: neither side sees an error. */
  fallSilent(): void {
    this.#isSilent = true;
  }

  /** What arrived in the meantime is forwarded, and closed connections are closed. */
  speak(): void {
    this.#isSilent = false;
    for (const line of this.#lines) line.flush();
  }

  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Breaks the connection at the next COMMIT of any writer; resolves when it is done. */
  breakCommit(fate: CommitFate): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { fate, tell: () => resolve() };
    });
  }

  /** Keeps the next such COMMIT from the server; resolves when it has been sent. */
  holdCommit(): Promise<HeldCommit> {
    return new Promise((resolve) => {
      this.#waiting = { fate: "hold", tell: (line) => resolve({ drop: () => line.cut() }) };
    });
  }

  /**
   * Cuts every connection at the n-th statement from now, which does not reach the server; the
   * returned promise resolves then.
   */
  cutAtStatement(n: number): Promise<void> {
    return this.#actAtStatement(n, "cut");
  }

  /**
   * Keeps the n-th statement from now from the server, with everything after it on its connection.
   */
  holdStatement(n: number): Promise<void> {
    return this.#actAtStatement(n, "hold");
  }

  #actAtStatement(n: number, act: "cut" | "hold"): Promise<void> {
    return new Promise((resolve) => {
      this.#cutting = { left: n, act, tell: resolve };
    });
  }

  /** Cancels all of these. */
  leaveAlone(): void {
    this.#waiting = null;
    this.#cutting = null;
  }

  /** What to do at this statement. */
  countStatement(): "cut" | "hold" | null {
    const cutting = this.#cutting;
    if (cutting === null || --cutting.left > 0) return null;
    this.#cutting = null;
    cutting.tell();
    return cutting.act;
  }

  async close(): Promise<void> {
    this.#listener.close();
    this.cut();
    await once(this.#listener, "close");
  }

  /** Only one of several that commit at once. */
  takeWaiting(line: Line, way: Way): CommitFate | "hold" | null {
    const waiting = this.#waiting;
    const isDue = waiting !== null && (waiting.fate === "lose_answer") === (way === "to_client");
    if (!isDue) return null;
    this.#waiting = null;
    waiting.tell(line);
    return waiting.fate;
  }

  #connect(client: Socket): void {
    if (this.#isRefusing) return void client.resetAndDestroy();
    const server = new Socket().connect(Number(this.#server.port), this.#server.hostname);
    const line = new Line(this, client, server);
    this.#lines.add(line);
    line.onEnd = () => this.#lines.delete(line);
  }
}

/** One connection between a client and the server. */
class Line {
  readonly #proxy: CuttingProxy;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #unread: Record<Way, Buffer> = {
    to_server: Buffer.alloc(0),
    to_client: Buffer.alloc(0),
  };
  #hasBegun = false;
  #writes = false;
  #isParsed = false;
  #isHeld = false;
  onEnd: () => void = () => undefined;

  constructor(proxy: CuttingProxy, client: Socket, server: Socket) {
    this.#proxy = proxy;
    this.#client = client;
    this.#server = server;
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on("data", (bytes) => this.#take("to_server", bytes));
    server.on("data", (bytes) => this.#take("to_client", bytes));
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on("error", () => (proxy.isSilent ? undefined : to.resetAndDestroy()));
      // A silent proxy does not forward the end of a connection either.
      from.on("end", () => (proxy.isSilent ? undefined : to.end()));
      from.on("close", () => (proxy.isSilent || this.#isHeld ? undefined : this.#end(to)));
    }
  }

  cut(): void {
    this.#client.resetAndDestroy();
    this.#server.resetAndDestroy();
    this.onEnd();
  }

  /** Forwards to each side what the other one has sent and done in the meantime. */
  flush(): void {
    this.#take("to_server", Buffer.alloc(0));
    this.#take("to_client", Buffer.alloc(0));
    if (this.#client.readableEnded || this.#client.destroyed) this.#end(this.#server);
    else if (this.#server.readableEnded || this.#server.destroyed) this.#end(this.#client);
  }

  #end(other: Socket): void {
    other.destroySoon();
    this.onEnd();
  }

  #take(way: Way, bytes: Buffer): void {
    this.#unread[way] = Buffer.concat([this.#unread[way], bytes]);
    if (this.#proxy.isSilent || this.#isHeld) return;
    const passed: Buffer[] = [];
    for (;;) {
      const message = this.#next(way);
      if (message === null) break;
      const fate = this.#judge(way, message);
      if (fate === "pass") passed.push(message);
      else if (fate === "cut") return this.#cutBehind(way, passed);
      else if (fate === "hold") {
        this.#isHeld = true;
        break;
      }
    }
    this.#send(way, passed);
  }

  /** Earlier data arrives; then both sides see a reset. */
  #cutBehind(way: Way, passed: readonly Buffer[]): void {
    this.#send(way, passed);
    this.cut();
  }

  #send(way: Way, messages: readonly Buffer[]): void {
    const to = way === "to_server" ? this.#server : this.#client;
    if (messages.length > 0 && to.writable) to.write(Buffer.concat(messages));
  }

  #next(way: Way): Buffer | null {
    const unread = this.#unread[way];
    const isFirst = way === "to_server" && !this.#hasBegun;
    const headerBytes = isFirst ? HEADER_BYTES - 1 : HEADER_BYTES;
    if (unread.length < headerBytes) return null;
    const length = unread.readUInt32BE(headerBytes - 4) + headerBytes - 4;
    if (unread.length < length) return null;
    if (isFirst) this.#hasBegun = true;
    this.#unread[way] = unread.subarray(length);
    return unread.subarray(0, length);
  }

  #judge(way: Way, message: Buffer): "pass" | "cut" | "hold" | "swallow" {
    const letter = String.fromCharCode(message[0] ?? 0);
    if (way === "to_client" && letter === "A" && this.#proxy.isDeaf) {
      this.#proxy.swallowed++;
      return "swallow";
    }
    if (way === "to_server" && letter === "B") this.#noteBegin(message);
    if (way === "to_server" && this.#isStatement(letter, message)) {
      const act = this.#proxy.countStatement();
      if (act !== null) return act;
    }
    const isCommit = isCommitMessage(way, letter, message);
    if (!isCommit || !this.#writes) return "pass";
    const fate = this.#proxy.takeWaiting(this, way);
    if (fate === null) return "pass";
    return fate === "hold" ? "hold" : "cut";
  }

  /**
   * Whether a statement begins here: where it is parsed, or where a known one is bound.
   * Notifications do not count: they come at any time, and no caller waits for their answer.
   */
  #isStatement(letter: string, message: Buffer): boolean {
    if (letter === "Q") return true;
    if (letter === "P") {
      this.#isParsed = true;
      return !message.includes("pg_notify");
    }
    if (letter !== "B") return false;
    const isKnown = !this.#isParsed;
    this.#isParsed = false;
    return isKnown;
  }

  #noteBegin(bind: Buffer): void {
    const names = bind.toString("latin1", HEADER_BYTES, HEADER_BYTES + READS.length + 1);
    if (names.includes(READS)) this.#writes = false;
    else if (names.includes(WRITES)) this.#writes = true;
  }
}

/**
 * A client's statement, as a plain query or to be parsed; the server's name of the command that it
 * ran.
 */
function isCommitMessage(way: Way, letter: string, message: Buffer): boolean {
  if (way === "to_client") return letter === "C" && readBody(message).startsWith(COMMIT);
  if (letter === "Q") return readBody(message).startsWith(COMMIT);
  return letter === "P" && readBody(message).includes(`\0${COMMIT}`);
}

function readBody(message: Buffer): string {
  return message.toString("latin1", HEADER_BYTES, HEADER_BYTES + 64);
}
