/** A user's own table beside the tables of a store, in the SQL of its database. */
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import type { ItemStatement, SqlValue } from "../../src/core/items/item-commit.ts";

export interface UserSql {
  /** With the columns key, note and data. The key is unique. */
  readonly table: string;
  /** Has a column `effect` that refers to a key of the other table. The constraint is deferred. */
  readonly child: string;
  /** The placeholder of the nth value, from 1. */
  place(nth: number): string;
  /** A statement that fails temporarily, or null if there is none. */
  readonly fleeting: string | null;
  /** The user's own connection with an open transaction. */
  begin(): Promise<UserTransaction>;
  all(sql: string): Promise<readonly Record<string, unknown>[]>;
  close(): Promise<void>;
}

export interface UserTransaction {
  /** What is passed to the store. */
  readonly transaction: unknown;
  run(sql: string): Promise<unknown>;
  /** Ends it and closes the connection. */
  end(how: "COMMIT" | "ROLLBACK"): Promise<void>;
}

const DEFERRED = "DEFERRABLE INITIALLY DEFERRED";

export function openSqliteTables(path: string): UserSql {
  const db = new DatabaseSync(path, { timeout: 1_000 });
  db.exec(`CREATE TABLE effect (key TEXT UNIQUE NOT NULL, note TEXT, data BLOB);
    CREATE TABLE child (effect TEXT REFERENCES effect (key) ${DEFERRED})`);
  return {
    table: "effect",
    child: "child",
    place: () => "?",
    fleeting: null,
    begin: async () => {
      const own = new DatabaseSync(path, { timeout: 1_000 });
      own.exec("BEGIN IMMEDIATE");
      return {
        transaction: own,
        run: async (sql) => own.exec(sql),
        end: async (how) => {
          own.exec(how);
          own.close();
        },
      };
    },
    all: async (sql) => db.prepare(sql).all(),
    close: async () => db.close(),
  };
}

/** In the default schema of a connection: only the tables' names belong to the test. */
export async function openPostgresTables(server: string, name: string): Promise<UserSql> {
  const client = new pg.Client(server);
  await client.connect();
  const table = `effect_${name}`;
  const child = `child_${name}`;
  await client.query(`CREATE TABLE ${table} (key text UNIQUE NOT NULL, note text, data bytea)`);
  await client.query(`CREATE TABLE ${child} (effect text REFERENCES ${table} (key) ${DEFERRED})`);
  await client.query(`CREATE FUNCTION fail_${name}() RETURNS int LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''not now'' USING ERRCODE = ''55000''; END'`);
  return {
    table,
    child,
    place: (nth) => `$${nth}`,
    fleeting: `SELECT fail_${name}()`,
    begin: async () => {
      const own = new pg.Client(server);
      await own.connect();
      await own.query("BEGIN");
      return {
        transaction: own,
        run: (sql) => own.query(sql),
        end: async (how) => {
          await own.query(how);
          await own.end();
        },
      };
    },
    all: async (sql) => (await client.query<Record<string, unknown>>(sql)).rows,
    close: async () => {
      await client.query(`DROP TABLE ${child}, ${table}`);
      await client.query(`DROP FUNCTION fail_${name}()`);
      await client.end();
    },
  };
}

/** One row with its key and its other columns. */
export function insert(sql: UserSql, key: string, note: SqlValue = null): ItemStatement {
  const values = `${sql.place(1)}, ${sql.place(2)}`;
  return { sql: `INSERT INTO ${sql.table} (key, note) VALUES (${values})`, values: [key, note] };
}

export async function listKeys(sql: UserSql): Promise<unknown[]> {
  const rows = await sql.all(`SELECT key FROM ${sql.table} ORDER BY key`);
  return rows.map(({ key }) => key);
}
