/**
 * A gate between a store and its server. While it is closed, each statement of the store waits here
 * until it is let through. The gate reads just enough of the protocol to find where a statement ends:
 * what a client sends up to a Sync is one statement, and the server answers it with one
 * ReadyForQuery. The store needs no switch for it: it has another address.
 */
import { once } from "node:events";
import { createServer, type Server, Socket } from "node:net";

/** A statement at the gate. */
interface Statement {
  /** Its SQL on one line. */
  readonly text: string;
  readonly bytes: Buffer;
  readonly connection: GateConnection;
}

/** Of the connection's transaction: none, under way, failed. */
type TransactionStatus = "I" | "T" | "E";

const LENGTH_BYTES = 4;
const BEGIN = "BEGIN";
const DEADLOCK = "40P01";

export class Gate {
  readonly #listener: Server;
  readonly #server: URL;
  #port = 0;
  #isOpen = true;
  /** Statements that pass as they come. */
  #credit = 0;
  readonly #waiting: Statement[] = [];
  readonly #connections = new Set<GateConnection>();
  /** Something arrived: a statement, or an answer. */
  onChange: () => void = () => undefined;
  onPassed: (text: string) => void = () => undefined;
  /** The last transaction of the store has let go of its locks. */
  onFreed: () => void = () => undefined;
  /** Statements that the server gave up because of a deadlock. */
  readonly deadlocks: string[] = [];

  private constructor(server: string) {
    this.#server = new URL(server);
    this.#listener = createServer((client) => this.#connect(client));
  }

  static async start(server: string): Promise<Gate> {
    const gate = new Gate(server);
    gate.#listener.listen(0, "127.0.0.1");
    await once(gate.#listener, "listening");
    const bound = gate.#listener.address();
    if (bound === null || typeof bound === "string") throw new Error("no port was given");
    gate.#port = bound.port;
    return gate;
  }

  /** The server's address through this gate. */
  get address(): string {
    const url = new URL(this.#server);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  /** How many statements wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Statements that the server has not answered. */
  get unanswered(): number {
    let count = 0;
    for (const connection of this.#connections) count += connection.unanswered;
    return count;
  }

  /** The processes of the server behind it. */
  get pids(): number[] {
    return [...this.#connections].flatMap(({ pid }) => (pid === null ? [] : [pid]));
  }

  close(): void {
    this.#isOpen = false;
    this.#credit = 0;
  }

  /** Everything passes, also what waits now. */
  open(): void {
    this.#isOpen = true;
    this.#forward();
  }

  /** Lets the next statements through, also those that are not here yet. */
  pass(statements: number): void {
    this.#credit = statements;
    this.#forward();
  }

  /** The rest does not pass. */
  stopPassing(): void {
    this.#credit = 0;
  }

  #forward(): void {
    while (this.#isOpen || this.#credit > 0) {
      const statement = this.#waiting.shift();
      if (statement === undefined) return;
      // What begins a transaction is of no interest to others: its next statement comes along.
      if (!statement.text.startsWith(BEGIN)) this.#credit--;
      statement.connection.forward(statement);
      this.onPassed(statement.text);
    }
  }

  take(statement: Statement): void {
    this.#waiting.push(statement);
    this.#forward();
    this.onChange();
  }

  noteAnswer(status: TransactionStatus): void {
    if (status !== "T") this.onFreed();
    this.onChange();
  }

  noteError(code: string, text: string): void {
    if (code === DEADLOCK) this.deadlocks.push(text);
  }

  async stop(): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) connection.end();
    await once(this.#listener, "close");
  }

  #connect(client: Socket): void {
    const server = new Socket().connect(Number(this.#server.port), this.#server.hostname);
    const connection = new GateConnection(this, client, server);
    this.#connections.add(connection);
    connection.onEnd = () => {
      this.#connections.delete(connection);
      this.onChange();
    };
  }
}

/** One connection of the store. */
class GateConnection {
  readonly #gate: Gate;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #fromClient = new MessageReader(true);
  readonly #fromServer = new MessageReader(false);
  /** The messages of the statement that is arriving. */
  #arriving: Buffer[] = [];
  #text = "";
  /** Prepared statements by name. */
  readonly #prepared = new Map<string, string>();
  /** Passed, and not answered. The server has the first one. */
  readonly #underWay: Statement[] = [];
  pid: number | null = null;
  onEnd: () => void = () => undefined;

  constructor(gate: Gate, client: Socket, server: Socket) {
    this.#gate = gate;
    this.#client = client;
    this.#server = server;
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on("data", (bytes) => this.#readClient(bytes));
    server.on("data", (bytes) => this.#readServer(bytes));
    for (const socket of [client, server]) {
      socket.on("error", () => this.end());
      socket.on("close", () => this.end());
    }
  }

  get unanswered(): number {
    return this.#underWay.length;
  }

  /**
   * One at a time: if two answers arrived together, what the store sends next would depend on that,
   * and not on the seed.
   */
  forward(statement: Statement): void {
    this.#underWay.push(statement);
    if (this.#underWay.length === 1) this.#server.write(statement.bytes);
  }

  #goOn(): void {
    const [next] = this.#underWay;
    if (next !== undefined && !this.#server.destroyed) this.#server.write(next.bytes);
  }

  end(): void {
    this.#client.destroy();
    this.#server.destroy();
    this.onEnd();
  }

  #readClient(bytes: Buffer): void {
    for (const message of this.#fromClient.read(bytes)) {
      // The start of a connection, or its end.
      if (message.letter === "" || message.letter === "X") {
        this.#server.write(message.bytes);
        continue;
      }
      this.#arriving.push(message.bytes);
      this.#noteText(message);
      if (message.letter !== "S" && message.letter !== "Q") continue;
      const statement = { bytes: Buffer.concat(this.#arriving), text: this.#text };
      this.#arriving = [];
      this.#gate.take({ ...statement, connection: this });
    }
  }

  #noteText({ letter, body }: Message): void {
    if (letter === "Q") this.#text = onOneLine(readStrings(body)[0] ?? "");
    if (letter === "P") {
      const [name = "", text = ""] = readStrings(body);
      this.#prepared.set(name, onOneLine(text));
    }
    if (letter === "B") this.#text = this.#prepared.get(readStrings(body)[1] ?? "") ?? "";
  }

  #readServer(bytes: Buffer): void {
    // First to the client: it acts on the answer before the next statement is chosen.
    this.#client.write(bytes);
    for (const { letter, body } of this.#fromServer.read(bytes)) {
      if (letter === "K") this.pid = body.readInt32BE(0);
      if (letter === "E") this.#gate.noteError(readCode(body), this.#underWay[0]?.text ?? "");
      if (letter !== "Z") continue;
      this.#underWay.shift();
      // After the client has read the answer.
      if (this.#underWay.length > 0) setImmediate(() => this.#goOn());
      this.#gate.noteAnswer(body.toString("latin1", 0, 1) as TransactionStatus);
    }
  }
}

interface Message {
  /** Empty for the first message of a client, which has none. */
  readonly letter: string;
  readonly body: Buffer;
  readonly bytes: Buffer;
}

class MessageReader {
  #unread = Buffer.alloc(0);
  #isFirst: boolean;

  constructor(isClient: boolean) {
    this.#isFirst = isClient;
  }

  *read(bytes: Buffer): Generator<Message> {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    for (;;) {
      const unread = this.#unread;
      const letterBytes = this.#isFirst ? 0 : 1;
      const headerBytes = letterBytes + LENGTH_BYTES;
      if (unread.length < headerBytes) return;
      const length = letterBytes + unread.readUInt32BE(letterBytes);
      if (unread.length < length) return;
      this.#unread = unread.subarray(length);
      this.#isFirst = false;
      yield {
        letter: unread.toString("latin1", 0, letterBytes),
        body: unread.subarray(headerBytes, length),
        bytes: unread.subarray(0, length),
      };
    }
  }
}

/** The strings at the beginning of a message; what follows them is read as text too. */
function readStrings(body: Buffer): string[] {
  return body.toString("utf8").split("\0", 2);
}

/** The SQLSTATE of an error: its fields are a letter and a string each. */
function readCode(body: Buffer): string {
  const field = body
    .toString("utf8")
    .split("\0")
    .find((text) => text.startsWith("C"));
  return field?.slice(1) ?? "";
}

function onOneLine(text: string): string {
  return text.replaceAll(/\s+/gu, " ").trim();
}
