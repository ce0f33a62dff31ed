/**
 * The address of a store on PostgreSQL: postgres://user:password@host:port/database?schema=sluice.
 * Missing parts come from the environment, as for psql (PGHOST, PGUSER, PGPASSWORD, ~/.pgpass).
 */
import { readFileSync } from "node:fs";
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { SluiceError } from "../../../core/base/errors.ts";

export interface Address {
  /** For people: without the password. */
  readonly name: string;
  readonly schema: string;
  readonly host?: string;
  readonly port?: number;
  readonly database?: string;
  readonly user?: string;
  readonly password?: string;
  readonly ssl: false | TlsOptions;
}

const DEFAULT_SCHEMA = "sluice";
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;
const SSL_MODES = ["verify-full", "no-verify", "disable"] as const;
const PARAMETERS = ["schema", "sslmode", "sslrootcert", "host"];

/** Whether a store's name is the address of a server, and not a file. */
export function isAddress(store: string): boolean {
  return /^postgres(ql)?:\/\//.test(store);
}

export function readAddress(text: string, env: NodeJS.ProcessEnv = process.env): Address {
  const url = parse(text);
  const get = (name: string): string | undefined => url.searchParams.get(name) ?? undefined;
  for (const name of url.searchParams.keys()) {
    if (!PARAMETERS.includes(name)) {
      throw refuse(
        `the parameter ${name} is unknown`,
        `The parameters are ${PARAMETERS.join(", ")}.`,
      );
    }
  }
  const schema = get("schema") ?? DEFAULT_SCHEMA;
  if (!SCHEMA.test(schema)) {
    throw refuse(`the schema name ${JSON.stringify(schema)} is not valid`, "Use a-z, 0-9 and _.");
  }
  const host = get("host") ?? decodeURIComponent(url.hostname);
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)];
  const port = url.port === "" ? undefined : Number(url.port);
  return {
    name: describe(url, host, schema),
    schema,
    ...(host === "" ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(database === "" ? {} : { database: decodeURIComponent(database) }),
    ...(user === "" ? {} : { user: decodeURIComponent(user) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    // The driver connects to PGHOST if the address has no host.
    ssl: readSsl(host || (env["PGHOST"] ?? ""), get("sslmode"), get("sslrootcert")),
  };
}

function parse(text: string): URL {
  try {
    return new URL(text);
  } catch (error) {
    throw refuse("it is not a URL", "Write postgres://user:password@host:port/database.", error);
  }
}

function describe(url: URL, host: string, schema: string): string {
  const user = url.username === "" ? "" : `${url.username}@`;
  const port = url.port === "" ? "" : `:${url.port}`;
  const within = schema === DEFAULT_SCHEMA ? "" : `?schema=${schema}`;
  return `postgres://${user}${host}${port}${url.pathname}${within}`;
}

/** Only this host can read traffic on its loopback or on a socket of its file system. */
function isLocal(host: string): boolean {
  return ["", "localhost", "127.0.0.1", "::1", "[::1]"].includes(host) || host.startsWith("/");
}

function readSsl(
  host: string,
  mode: string | undefined,
  authority: string | undefined,
): Address["ssl"] {
  const chosen = mode ?? (isLocal(host) && authority === undefined ? "disable" : "verify-full");
  switch (chosen) {
    case "disable":
      return false;
    case "no-verify":
      return { rejectUnauthorized: false };
    case "verify-full":
      return { rejectUnauthorized: true, ...(authority ? { ca: readAuthority(authority) } : {}) };
    default:
      throw refuse(
        `sslmode ${JSON.stringify(chosen)} is unknown`,
        `Use one of ${SSL_MODES.join(", ")}. The default is verify-full for a server on another host.`,
      );
  }
}

function readAuthority(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw refuse(`sslrootcert ${path} cannot be read`, "Name a file with PEM certificates.", error);
  }
}

function refuse(what: string, hint: string, cause?: unknown): SluiceError {
  return new SluiceError("BAD_OPTION", `the store's address is not valid: ${what}`, {
    field: "store",
    hint,
    cause,
  });
}
