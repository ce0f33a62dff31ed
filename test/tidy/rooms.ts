/**
 * The rooms of `src`: a room is a folder with one job. For each layer, its rooms from the bottom up,
 * and which other rooms of the layer each one imports (`.` is the layer's own folder). What a layer
 * may import of others is in `layers`. Both tables are exact: a new edge is a decision, and an edge
 * that is gone has to go here too.
 */

type Rooms = Readonly<Record<string, readonly string[]>>;

/** What each layer may import. A layer may always import itself. */
export const layers: Readonly<Record<string, readonly string[]>> = {
  core: [],
  ports: ["core"],
  "adapters/memory": ["core", "ports"],
  "adapters/sql": ["core", "ports"],
  "adapters/sqlite": ["core", "ports", "adapters/sql"],
  "adapters/postgres": ["core", "ports", "adapters/sql"],
  stores: ["core", "ports", "adapters/sqlite", "adapters/postgres"],
  runtime: ["core", "ports", "ledger"],
  sources: ["core", "ports"],
  sinks: ["core", "ports"],
  // Verifying evidence must not need the engine: nothing of a store, not even the ports.
  ledger: ["core"],
  "health-thread": ["core", "ports", "stores", "runtime"],
  testing: ["core", "ports", "adapters/memory", "runtime"],
  // Plain objects, for every surface: the command line prints them, an HTTP API sends them.
  views: ["core", "ports", "ledger", "runtime"],
  cli: [
    "core",
    "ports",
    "adapters/memory",
    "adapters/sql",
    "adapters/sqlite",
    "adapters/postgres",
    "stores",
    "ledger",
    "runtime",
    "views",
    "sources",
    "health-thread",
  ],
};

export const rooms: Readonly<Record<string, Rooms>> = {
  core: {
    base: [],
    fleet: ["base"],
    limits: ["base"],
    batch: ["base", "limits"],
    items: ["base", "limits", "batch"],
    events: ["base", "batch", "items"],
    ledger: ["base", "batch", "items", "events"],
  },
  ports: {
    store: [],
    ".": ["store"],
  },
  "adapters/memory": {
    ".": [],
  },
  "adapters/sql": {
    ".": [],
    dialect: [],
    topics: ["dialect"],
    // Rules of both stores, as generators.
    rules: [".", "dialect", "topics"],
    reading: [".", "dialect", "rules"],
    working: [".", "dialect", "topics", "rules"],
    store: [".", "dialect", "topics", "rules", "reading", "working"],
  },
  "adapters/sqlite": {
    connection: [],
    limits: ["connection"],
    topics: ["connection"],
    chunks: ["connection", "topics"],
    ledger: ["connection"],
    working: ["connection", "limits", "chunks", "ledger"],
    ".": ["connection", "limits", "topics", "chunks", "ledger", "working"],
  },
  "adapters/postgres": {
    connection: [],
    limits: ["connection"],
    topics: ["connection"],
    chunks: ["connection", "topics"],
    ledger: ["connection"],
    working: ["connection", "limits", "chunks", "ledger"],
    ".": ["connection", "limits", "topics", "chunks", "ledger", "working"],
  },
  stores: {
    ".": [],
  },
  ledger: {
    format: [],
    keys: ["format"],
    verify: ["format", "keys"],
  },
  runtime: {
    system: [],
    cpu: ["system"],
    evidence: ["system"],
    observing: [],
    pipeline: ["system", "cpu"],
    health: ["system", "pipeline"],
    chunk: ["system", "cpu", "observing", "pipeline", "health"],
    limits: ["system", "pipeline", "chunk"],
    reading: ["system", "observing", "pipeline", "health", "chunk", "limits"],
    conducting: ["system", "pipeline", "reading"],
    delivering: ["system", "observing", "conducting"],
    running: ["system", "cpu", "observing", "pipeline", "health", "chunk", "limits"],
    leasing: [
      "system",
      "cpu",
      "observing",
      "pipeline",
      "health",
      "chunk",
      "limits",
      "reading",
      "running",
    ],
    engine: [
      "system",
      "cpu",
      "evidence",
      "observing",
      "pipeline",
      "health",
      "reading",
      "conducting",
      "delivering",
      "leasing",
    ],
  },
  sources: {
    files: [],
    csv: ["files"],
    jsonl: ["files"],
    paged: ["files"],
    ".": ["files", "csv", "jsonl", "paged"],
  },
  sinks: {
    ".": [],
  },
  "health-thread": {
    ".": [],
  },
  testing: {
    faults: [],
    world: ["faults"],
    kills: ["faults", "world"],
  },
  views: {
    ".": [],
  },
  cli: {
    completion: [],
    output: [],
    config: ["output"],
    doctor: ["output", "config"],
    render: ["output"],
    flags: ["output", "config"],
    process: ["output", "config", "render"],
    session: ["output", "config", "render", "flags", "process"],
    "commands/batches": ["output", "config", "render", "flags", "process", "session"],
    "commands/operate": ["output", "config", "render", "flags", "process", "session"],
    "commands/store": ["completion", "output", "config", "doctor", "flags", "session"],
    evidence: ["output", "config", "render", "session"],
    "commands/evidence": ["output", "config", "render", "flags", "session", "evidence"],
    ".": [
      "output",
      "config",
      "render",
      "flags",
      "process",
      "commands/batches",
      "commands/operate",
      "commands/store",
      "commands/evidence",
    ],
  },
};
